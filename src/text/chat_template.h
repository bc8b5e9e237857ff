// Chat templates of Hugging Face folders: messages to text, equal to transformers character by character.
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

// A piece of rendered text that a generation block wrote, in bytes.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

struct RenderedChat {
  std::string text;
  bool marked = false;  // whether the template has generation blocks
  std::vector<TextRange> generated;
};

// A template that cannot render these variables: what() is "NAME:LINE:COLUMN: ...".
class TemplateError : public std::runtime_error {
 public:
  TemplateError(const std::string& where, const std::string& message, bool raised)
      : std::runtime_error(where + ": " + message), message_(message), raised_(raised) {}

  const std::string& message() const { return message_; }  // without the position
  bool raised() const { return raised_; }                  // by raise_exception, with this message

 private:
  std::string message_;
  bool raised_;
};

// Immutable; render may be called from many threads at once.
class ChatTemplate {
 public:
  // `name` is for messages ("FILE" or "FILE: chat_template"). A syntax error is a UserError,
  // NAME:LINE:COLUMN: ... Special tokens are variables by their role: bos_token, eos_token, ...
  ChatTemplate(std::string source, std::string name, std::map<std::string, std::string> special_tokens);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Variables (a dict): messages, tools, documents, add_generation_prompt, and any others. tools and
  // documents are none and add_generation_prompt is false where absent; other variables take precedence over
  // special tokens. Throws TemplateError.
  RenderedChat render(const jinja::Value& variables) const;

  const std::string& source() const;
  const std::string* source_with_tools() const;  // null if there is no other
  const std::string& name() const;
  bool marks_generation() const;  // whether it has a generation block

  // Another template for conversations with tools, as transformers chooses "tool_use" among named templates.
  void use_with_tools(ChatTemplate other);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The template that `choice` names, with the special tokens of the folder: a built-in one (chatml, zephyr,
// plain), one of the folder's named templates, or a file. Without a choice, the folder's own:
// chat_template.jinja, else the chat_template of tokenizer_config.json, else of chat_template.json; of
// several named ones "default", and "tool_use" where there are tools. Nullopt if there is none.
std::optional<ChatTemplate> find_chat_template(const std::filesystem::path& folder,
                                               const std::string& choice = "");

// The files that find_chat_template finds this template in: name in a folder, text.
std::map<std::string, std::string> files_of(const ChatTemplate& chat_template);

// The names of the built-in templates, and the source of one; nullptr if there is none of that name.
std::vector<std::string> builtin_chat_templates();
const char* builtin_chat_template(std::string_view name);

}  // namespace dpo::text
