#include "text/chat_template.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "text/jinja/template.h"

namespace dpo::text {

using jinja::Dict;
using jinja::Value;

struct ChatTemplate::Parts {
  std::string source;
  std::string name;
  Dict special_tokens;
  jinja::Template program;
  std::optional<ChatTemplate> with_tools;  // used for conversations with tools

  Parts(std::string text, std::string label, Dict tokens)
      : source(std::move(text)), name(std::move(label)), special_tokens(std::move(tokens)), program(source) {}
};

namespace {

std::string where(const std::string& name, jinja::Position at) {
  return fmt::format("{}:{}:{}", name, at.line, at.column);
}

Dict token_variables(const std::map<std::string, std::string>& special_tokens) {
  Dict variables;
  for (const auto& [role, token] : special_tokens) variables.set(role, token);
  return variables;
}

// Gives a message's reasoning every name by which templates read it, as transformers does.
Value with_reasoning(const Value& message) {
  const Value* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (!reasoning || reasoning->is_none()) reasoning = message.find(name);
  if (!reasoning || reasoning->is_none()) return message;
  Dict aliased{{"thinking", *reasoning}};
  for (const auto& [key, value] : message.dict().entries()) aliased.set(key, value);
  aliased.set("reasoning_content", *reasoning);
  return aliased;
}

Value checked_messages(const Value* messages) {
  if (!messages || !messages->is_list()) throw jinja::Failure("messages: expected a list of messages");
  if (messages->items().empty()) throw jinja::Failure("messages: expected at least one message");
  jinja::Values checked;
  checked.reserve(messages->items().size());
  for (const Value& message : messages->items()) {
    if (!message.is_dict()) throw jinja::Failure("messages: expected objects with \"role\" and \"content\"");
    checked.push_back(with_reasoning(message));
  }
  return Value::list(std::move(checked));
}

// Returns tools or documents after checking that they are none or a list of objects.
Value checked_objects(const Value* list, const char* name) {
  if (!list || list->is_none()) return {};
  const bool valid = list->is_list() && std::all_of(list->items().begin(), list->items().end(),
                                                    [](const Value& item) { return item.is_dict(); });
  if (!valid) throw jinja::Failure(fmt::format("{}: expected a list of objects", name));
  return *list;
}

Dict checked_variables(const Value& given, const Dict& special_tokens) {
  static const Value kMessages("messages"), kTools("tools"), kDocuments("documents"),
      kGenerationPrompt("add_generation_prompt");
  if (!given.is_dict()) throw jinja::Failure("expected an object with \"messages\"");
  Dict variables;
  for (const auto& [name, token] : special_tokens.entries()) variables.set(name.borrowed(), token.borrowed());
  for (const auto& [name, value] : given.dict().entries()) variables.set(name, value);
  variables.set(kMessages.borrowed(), checked_messages(given.find("messages")));
  variables.set(kTools.borrowed(), checked_objects(given.find("tools"), "tools"));
  variables.set(kDocuments.borrowed(), checked_objects(given.find("documents"), "documents"));
  if (!given.find("add_generation_prompt")) variables.set(kGenerationPrompt.borrowed(), false);
  return variables;
}

// The source of a built-in template, for training base models.
struct Builtin {
  const char* name;
  const char* source;
};

constexpr std::array<Builtin, 3> kBuiltins = {{
    {"chatml",
     "{%- for message in messages -%}\n"
     "{{- '<|im_start|>' + message['role'] + '\\n' -}}\n"
     "{%- if message['role'] == 'assistant' -%}\n"
     "{%- generation -%}{{- message['content'] + '<|im_end|>' -}}{%- endgeneration -%}{{- '\\n' -}}\n"
     "{%- else -%}\n"
     "{{- message['content'] + '<|im_end|>\\n' -}}\n"
     "{%- endif -%}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}\n"},
    {"zephyr",
     "{%- for message in messages -%}\n"
     "{{- '<|' + message['role'] + '|>\\n' -}}\n"
     "{%- if message['role'] == 'assistant' -%}\n"
     "{%- generation -%}{{- message['content'] + eos_token -}}{%- endgeneration -%}{{- '\\n' -}}\n"
     "{%- else -%}\n"
     "{{- message['content'] + eos_token + '\\n' -}}\n"
     "{%- endif -%}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}\n"},
    {"plain",
     "{%- for message in messages -%}\n"
     "{%- if message['role'] == 'assistant' -%}\n"
     "{{- '\\n\\nAssistant:' -}}\n"
     "{%- generation -%}{{- ' ' + message['content'] + eos_token -}}{%- endgeneration -%}\n"
     "{%- elif message['role'] == 'user' -%}\n"
     "{{- '\\n\\nHuman: ' + message['content'] -}}\n"
     "{%- else -%}\n"
     "{{- message['content'] -}}\n"
     "{%- endif -%}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt -%}{{- '\\n\\nAssistant:' -}}{%- endif -%}\n"},
}};

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string name,
                           std::map<std::string, std::string> special_tokens) {
  try {
    parts_ = std::make_unique<Parts>(std::move(source), name, token_variables(special_tokens));
  } catch (const jinja::SyntaxError& error) {
    throw UserError(fmt::format("{}: {}", where(name, error.at), error.what()));
  } catch (const jinja::Failure& error) {
    throw UserError(fmt::format("{}: {}", name, error.what()));
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

RenderedChat ChatTemplate::render(const Value& variables) const {
  const Value* tools = variables.find("tools");
  if (parts_->with_tools && tools && !tools->is_none()) return parts_->with_tools->render(variables);
  try {
    jinja::Rendered rendered = parts_->program.render(checked_variables(variables, parts_->special_tokens));
    RenderedChat chat{std::move(rendered.text), marks_generation(), {}};
    for (const auto& [begin, end] : rendered.generated) chat.generated.push_back({begin, end});
    return chat;
  } catch (const jinja::RenderError& error) {
    throw TemplateError(where(parts_->name, error.at), error.what(), error.raised);
  } catch (const jinja::Failure& error) {
    throw TemplateError(parts_->name, error.what(), false);
  }
}

const std::string& ChatTemplate::source() const { return parts_->source; }
const std::string& ChatTemplate::name() const { return parts_->name; }
bool ChatTemplate::marks_generation() const { return parts_->program.marks_generation(); }

const std::string* ChatTemplate::source_with_tools() const {
  return parts_->with_tools ? &parts_->with_tools->source() : nullptr;
}

void ChatTemplate::use_with_tools(ChatTemplate other) { parts_->with_tools = std::move(other); }

std::vector<std::string> builtin_chat_templates() {
  std::vector<std::string> names;
  for (const Builtin& builtin : kBuiltins) names.emplace_back(builtin.name);
  return names;
}

const char* builtin_chat_template(std::string_view name) {
  const auto found = std::find_if(kBuiltins.begin(), kBuiltins.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found == kBuiltins.end() ? nullptr : found->source;
}

}  // namespace dpo::text
