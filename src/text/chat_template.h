// Chat templates of Hugging Face folders. They convert messages to the same text as transformers, character
// by character.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace dpo::text {

// A range of the rendered text that a generation block wrote, in bytes.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

struct RenderedChat {
  std::string text;
  bool marked = false;  // true if the template has generation blocks
  std::vector<TextRange> generated;
};

// Thrown if a template cannot render these variables. what() is "NAME:LINE:COLUMN: ...".
class TemplateError : public std::runtime_error {
 public:
  TemplateError(const std::string& where, const std::string& message, bool raised)
      : std::runtime_error(where + ": " + message), message_(message), raised_(raised) {}

  const std::string& message() const { return message_; }  // without the position
  bool raised() const { return raised_; }                  // raised by raise_exception

 private:
  std::string message_;
  bool raised_;
};

// A chat template. It is immutable; render may be called from many threads at once.
class ChatTemplate {
 public:
  // `name` is for messages ("FILE" or "FILE: chat_template"). Throws a UserError (NAME:LINE:COLUMN: ...) for
  // a syntax error. Special tokens are variables named by their role: bos_token, eos_token, ...
  ChatTemplate(std::string source, std::string name, std::map<std::string, std::string> special_tokens);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Renders the variables (a dict): messages, tools, documents, add_generation_prompt, and any others. If
  // absent, tools and documents are none and add_generation_prompt is false. Variables take precedence over
  // special tokens. Throws TemplateError.
  RenderedChat render(const jinja::Value& variables) const;

  const std::string& source() const;
  const std::string* source_with_tools() const;  // null if there is no template for tools
  const std::string& name() const;
  bool marks_generation() const;  // true if it has a generation block

  // Sets the template for conversations with tools, as transformers chooses "tool_use" among named templates.
  void use_with_tools(ChatTemplate other);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Returns the template that `choice` names, with the special tokens of the folder: a built-in one (chatml,
// zephyr, plain), one of the folder's named templates, or a file. Without a choice, returns the folder's own
// template: chat_template.jinja, else the chat_template of tokenizer_config.json, else that of
// chat_template.json. If the folder has several named templates, "default" is used, and "tool_use" for
// conversations with tools. Returns nullopt if there is no template.
std::optional<ChatTemplate> find_chat_template(const std::filesystem::path& folder,
                                               const std::string& choice = "");

// Returns the files (name in a folder, text) from which find_chat_template would read this template.
std::map<std::string, std::string> files_of(const ChatTemplate& chat_template);

// Return the names of the built-in templates, and the source of one, or nullptr if there is none of that
// name.
std::vector<std::string> builtin_chat_templates();
const char* builtin_chat_template(std::string_view name);

}  // namespace dpo::text
