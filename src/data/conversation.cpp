#include "data/conversation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/text.h"

namespace dpo::data {
namespace {

constexpr std::string_view kAssistant = "assistant";

bool is_text(const Value* value) { return value && value->kind == Value::Kind::Text; }

bool is_message(const Value& value) {
  return value.kind == Value::Kind::Map &&
         (is_text(value.find("role")) || (is_text(value.find("from")) && value.find("value")));
}

// ShareGPT's names of roles, and those of chat templates.
using RoleName = std::pair<std::string_view, std::string_view>;
constexpr std::array<RoleName, 10> kRoles = {{{"human", "user"},
                                              {"user", "user"},
                                              {"gpt", "assistant"},
                                              {"chatgpt", "assistant"},
                                              {"assistant", "assistant"},
                                              {"system", "system"},
                                              {"developer", "developer"},
                                              {"tool", "tool"},
                                              {"observation", "tool"},
                                              {"function", "tool"}}};

// Finds a role in any case, because files write roles in any case but templates only in lower case.
const RoleName* find_role(std::string_view name) {
  const auto is_same = [](char x, char y) { return std::tolower(static_cast<unsigned char>(x)) == y; };
  const auto found = std::ranges::find_if(
      kRoles, [&](const RoleName& role) { return std::ranges::equal(name, role.first, is_same); });
  return found == kRoles.end() ? nullptr : &*found;
}

std::string role_from(const std::string& from) {
  if (const RoleName* const found = find_role(from)) return std::string(found->second);
  throw BadRow(
      fmt::format("a message is from '{}', expected human, gpt, system or tool", config::shown(from)));
}

// Converts a role to the name and case that templates use. Some files combine ShareGPT's role names with the
// keys `role` and `content`. The roles observation and function stay, because templates may know them.
// Unknown roles are left to the template (see chat.cpp).
std::string template_role(const std::string& role) {
  const RoleName* const found = find_role(role);
  if (!found) return role;
  return std::string(found->second == "tool" ? found->first : found->second);
}

std::string names_of(const Value& object) {
  return config::shown(fmt::format("{}", fmt::join(object.names, ", ")));
}

// Removes null members. If messages of a file have different keys, those that a message does not have are
// null. A null content stays, because it means that there is none.
Value without_nulls(const Value& message) {
  Value kept;
  kept.kind = message.kind;
  for (std::size_t i = 0; i < message.items.size(); ++i) {
    if (message.items[i].kind == Value::Kind::Null && message.names[i] != "content") continue;
    kept.names.push_back(message.names[i]);
    kept.items.push_back(message.items[i]);
  }
  return kept;
}

// Replaces a content of one text part by its text. Files for vision-language models contain such parts.
void join_part(Value& content) {
  if (content.kind != Value::Kind::List || content.items.size() != 1) return;
  const Value* const type = content.items[0].find("type");
  const Value* const text = content.items[0].find("text");
  if (!is_text(type) || type->text != "text" || !is_text(text)) return;
  Value joined = *text;
  content = std::move(joined);
}

Value with_role(const Value& message, std::string_view column) {
  if (!is_message(message))
    throw BadRow(fmt::format("'{}' contains {}, expected messages with 'role' and 'content'",
                             config::shown(column), shape_of(message)));
  const auto is_null = [](const Value& value) { return value.kind == Value::Kind::Null; };
  Value made = std::ranges::any_of(message.items, is_null) ? without_nulls(message) : message;
  const bool has_role = made.find("role");
  if (has_role && !made.find("content") && (made.find("value") || made.find("text")))
    throw BadRow(
        fmt::format("'{}' contains a message with the keys {}, expected 'role' and 'content', or 'from' "
                    "and 'value'",
                    config::shown(column), names_of(made)));
  for (std::size_t i = 0; i < made.names.size(); ++i) {
    std::string& name = made.names[i];
    std::string& text = made.items[i].text;
    if (const Value* const other = made.items[i].find_other())
      throw BadRow(
          fmt::format("'{}' has a message whose '{}' is {}{}, expected text, numbers, lists or objects",
                      config::shown(column), config::shown(name),
                      other == &made.items[i] ? "" : "or contains ", other->kind_name()));
    if (name == "role") text = template_role(text);
    if (!has_role && name == "value") name = "content";
    if (name == "content") join_part(made.items[i]);
    if (has_role || name != "from") continue;
    name = "role";
    text = role_from(text);
  }
  return made;
}

bool begins_with(const Messages& messages, const Messages& start) {
  return messages.size() > start.size() && std::equal(start.begin(), start.end(), messages.begin());
}

// Returns the number of first messages that all have in common. Each conversation keeps at least one message
// after them.
std::size_t common_messages(const std::vector<Messages>& all) {
  std::size_t common = all.front().size() - 1;
  for (const Messages& messages : all) {
    const auto differs =
        std::mismatch(all.front().begin(), all.front().end(), messages.begin(), messages.end());
    common = std::min(
        {common, messages.size() - 1, static_cast<std::size_t>(differs.first - all.front().begin())});
  }
  return common;
}

bool is_assistant(const Value& message) { return role_of(message) == kAssistant; }

std::string roles_of(const Messages& messages) {
  std::vector<std::string> roles;
  for (const Value& message : messages)
    if (std::string role(role_of(message)); std::ranges::find(roles, role) == roles.end())
      roles.push_back(std::move(role));
  return config::shown(fmt::format("{}", fmt::join(roles, ", ")));
}

void erase_first(Messages& messages, std::size_t count) {
  messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
}

void append_messages(std::string& json, std::span<const Value> messages) {
  constexpr std::size_t kNamesOfMessage = 48;
  std::size_t size = json.size() + kNamesOfMessage;
  for (const Value& message : messages) {
    size += kNamesOfMessage;
    for (const Value& item : message.items) size += item.text.size();
  }
  json.reserve(size);
  json += '[';
  for (const Value& message : messages) {
    if (&message != messages.data()) json += ", ";
    append_json(json, message);
  }
  json += ']';
}

// Appends tools (a list) or keyword arguments (an object), which some files store as JSON in a string.
// Appends nothing if there are none.
void append_member(std::string& json, const Value* value, Value::Kind expected, std::string_view column) {
  if (!value || (value->kind == Value::Kind::Text && value->text.empty())) return;
  Value parsed;
  if (value->kind == Value::Kind::Text) {
    try {
      parsed = parse_row(value->text);
    } catch (const BadRow&) {
      throw BadRow(fmt::format("'{}' is a string that is not JSON", column));
    }
    value = &parsed;
  }
  if (value->kind == Value::Kind::Null) return;
  if (const Value* const other = value->find_other(); other && value->kind == expected)
    throw BadRow(fmt::format("'{}' contains {}, expected JSON values only", column, other->kind_name()));
  if (value->kind != expected)
    throw BadRow(fmt::format("'{}' is {}, expected {}", column, value->kind_name(),
                             expected == Value::Kind::List ? "a list" : "an object"));
  json += fmt::format(", \"{}\": ", column);
  append_json(json, *value);
}

}  // namespace

bool is_messages(const Value& value) {
  return is_message(value) ||
         (value.kind == Value::Kind::List && !value.items.empty() && is_message(value.items[0]));
}

std::string shape_of(const Value& value) {
  if (value.kind == Value::Kind::Map) return fmt::format("an object with the keys {}", names_of(value));
  if (value.kind != Value::Kind::List) return std::string(value.kind_name());
  if (value.items.empty()) return "an empty list";
  return fmt::format("a list that begins with {}", shape_of(value.items[0]));
}

Messages messages_of(const Value& value, std::string_view column) {
  Messages messages;
  if (value.kind == Value::Kind::Map)
    messages.push_back(with_role(value, column));
  else
    for (const Value& item : value.items) messages.push_back(with_role(item, column));
  if (messages.empty()) throw BadRow(fmt::format("'{}' has no messages", config::shown(column)));
  return messages;
}

Value make_message(std::string role, std::string content) {
  Value message;
  message.kind = Value::Kind::Map;
  message.names = {"role", "content"};
  message.items = {Value::of(std::move(role)), Value::of(std::move(content))};
  return message;
}

std::string_view role_of(const Value& message) { return message.find("role")->text; }

Conversation split_conversation(Messages prompt, std::vector<Messages> responses, bool prompt_is_text) {
  if (responses.empty()) throw BadRow("there are no responses");
  const bool repeated =
      std::ranges::all_of(responses, [&](const Messages& r) { return begins_with(r, prompt); });
  const auto is_system = [](const Value& message) { return role_of(message) == "system"; };
  const bool whole =
      (prompt_is_text || std::ranges::all_of(prompt, is_system)) &&
      std::ranges::none_of(responses, [](const Messages& r) { return is_assistant(r.front()); });
  if (repeated && !prompt.empty()) {
    for (Messages& response : responses) erase_first(response, prompt.size());
  } else if (whole) {
    // A prompt next to whole conversations repeats the text of one of their messages; only a system message
    // may be new.
    const std::size_t common = common_messages(responses);
    if (common == 0) throw BadRow("the conversations have no first message in common, so there is no prompt");
    const bool adds_system =
        !prompt.empty() && role_of(prompt[0]) == "system" && role_of(responses[0][0]) != "system";
    prompt.resize(adds_system ? 1 : 0);
    prompt.insert(prompt.end(), responses[0].begin(),
                  responses[0].begin() + static_cast<std::ptrdiff_t>(common));
    for (Messages& response : responses) erase_first(response, common);
  }
  if (prompt.empty()) throw BadRow("there is no prompt: the conversation begins with the assistant");
  for (const Messages& response : responses) {
    if (is_assistant(prompt.back()) && is_assistant(response.front()))
      throw BadRow(
          "the prompt ends with a message of the assistant, and a response begins with one: it is unclear "
          "which of them is the answer");
    if (std::ranges::none_of(response, is_assistant))
      throw BadRow(
          fmt::format("a response has no message of the 'assistant'; its roles are: {}", roles_of(response)));
  }
  return {std::move(prompt), std::move(responses)};
}

Conversation split_for_sft(Messages messages, config::TrainOn train_on) {
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_assistant).base();
  const auto user = std::find_if(messages.begin(), last, [](const Value& m) { return role_of(m) == "user"; });
  auto first = std::find_if(user, last, is_assistant);
  if (first == last)
    throw BadRow(fmt::format(
        "the conversation has no message of the 'assistant' after one of the 'user'; its roles are: {}",
        roles_of(messages)));
  if (train_on == config::TrainOn::last) first = last - 1;
  Conversation split;
  split.responses.emplace_back(first, last);
  messages.erase(first, messages.end());
  split.prompt = std::move(messages);
  return split;
}

std::string response_json(std::span<const Value> messages) {
  std::string json;
  append_messages(json, messages);
  return json;
}

std::string prompt_json(std::span<const Value> messages, const Value* tools, const Value* kwargs) {
  std::string json = "{\"messages\": ";
  append_messages(json, messages);
  append_member(json, tools, Value::Kind::List, "tools");
  append_member(json, kwargs, Value::Kind::Map, "chat_template_kwargs");
  return json += "}";
}

}  // namespace dpo::data
