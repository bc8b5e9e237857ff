#include "data/prompt_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "data/bytes.h"
#include "data/conversation.h"
#include "data/formats.h"
#include "data/rows.h"

namespace dpo::data {
namespace {

constexpr std::size_t kLongestLine = 64u << 20;

class StdinBytes : public ByteReader {
 public:
  std::size_t read(std::span<char> into) override {
    for (;;) {
      const ssize_t count = ::read(STDIN_FILENO, into.data(), into.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) throw UserError(fmt::format("stdin: {}", std::strerror(errno)));
    }
  }
};

using LineVisitor = std::function<void(const std::string& line, const std::string& origin)>;
using RowVisitor = std::function<void(Value&& row, const std::string& origin)>;

Value object_of(const std::string& line) {
  Value row = parse_row(line);
  if (row.kind != Value::Kind::Map)
    throw BadRow(fmt::format("got {}, expected an object with named columns", row.kind_name()));
  return row;
}

// Adds the origin of a row to its errors.
template <class Work>
void at_origin(const std::string& origin, Work work) {
  try {
    work();
  } catch (const BadRow& bad) {
    throw UserError(fmt::format("{}: {}", origin, bad.what()));
  }
}

void for_each_row(const std::string& file, const RowVisitor& visit) {
  if (file == "-" || !is_row_file(file)) {
    for_each_line(file, [&](const std::string& line, const std::string& origin) {
      at_origin(origin, [&] { visit(object_of(line), origin); });
    });
    return;
  }
  BadRows bad(/*skip=*/true);
  const auto take = [&](Value&& row, std::int64_t line) {
    if (bad.count() == 0) visit(std::move(row), fmt::format("{}:{}", file, line));
    return bad.count() == 0;
  };
  read_rows(file, take, bad);
  if (bad.count() > 0) throw UserError(bad.examples().front());
}

// Calls `object` for each line if the first line is a JSON object, otherwise calls `text`.
void for_each_prompt(const std::string& file, const RowVisitor& object, const LineVisitor& text) {
  std::optional<bool> is_json;
  for_each_line(file, [&](const std::string& line, const std::string& origin) {
    if (!is_json) is_json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false).is_object();
    if (!*is_json) return text(line, origin);
    at_origin(origin, [&] { object(object_of(line), origin); });
  });
}

std::string prompt_text_of(const Value& row) {
  const Value* const prompt = row.find("prompt");
  if (row.find("messages") || (prompt && is_messages(*prompt)))
    throw BadRow("this is a conversation; --chat renders it with the model's chat template");
  return text_of(row, "prompt");
}

Messages conversation_of(const Columns& columns) {
  const char* const ours = columns.has("prompt") ? "prompt" : "messages";
  const Value* const value = columns.find(ours);
  if (!value) throw BadRow("expected 'prompt' or 'messages'");
  Messages messages;
  if (const Value* const system = columns.find("system"); system && system->kind != Value::Kind::Null)
    if (const std::string& text = text_of(columns.row(), columns.name_of("system")); !text.empty())
      messages.push_back(make_message("system", text));
  if (value->kind == Value::Kind::Text) {
    messages.push_back(make_message("user", value->text));
    return messages;
  }
  if (!is_messages(*value))
    throw BadRow(fmt::format("'{}' is {}, expected a string or messages with 'role' and 'content'",
                             columns.name_of(ours), shape_of(*value)));
  const Messages turns = messages_of(*value, columns.name_of(ours));
  messages.insert(messages.end(), turns.begin(), turns.end());
  return messages;
}

PromptLine prompt_line(const Messages& messages, const std::string& origin, const Value* tools = nullptr,
                       const Value* kwargs = nullptr) {
  PromptLine line;
  line.text.chat = true;
  line.text.prompt = prompt_json(messages, tools, kwargs);
  line.origin = origin;
  return line;
}

// Adds equal scores to a list of responses without scores, because they are not compared here.
void add_scores(Value& row, const ColumnNames& names) {
  const Columns columns(row, names);
  const Value* const responses = columns.find("responses");
  if (!responses || columns.has("scores") || columns.has("ranking") || columns.has("chosen")) return;
  Value scores;
  scores.kind = Value::Kind::List;
  scores.items.assign(responses->items.size(), Value::of(0.0));
  row.names.push_back("scores");
  row.items.push_back(std::move(scores));
}

// Replaces an empty prompt by one that training accepts. Returns whether it was empty.
bool fill_empty_prompt(Value& row, const ColumnNames& names) {
  const Columns columns(row, names);
  if (columns.is_chat(columns.form())) return false;
  const std::string name = columns.name_of("prompt");
  bool filled = false;
  for (std::size_t i = 0; i < row.names.size(); ++i)
    if (row.names[i] == name && row.items[i].kind == Value::Kind::Text && row.items[i].text.empty()) {
      row.items[i].text = " ";
      filled = true;
    }
  return filled;
}

// Reads a row as training does.
PromptText read_row(Value row, const ColumnNames& names) {
  try {
    add_scores(row, names);
    const bool has_empty_prompt = fill_empty_prompt(row, names);
    PromptText made = read_by_columns(row, names, config::TrainOn::assistant);
    if (has_empty_prompt) made.prompt.clear();
    return made;
  } catch (const BadRow& bad) {
    const std::string what = bad.what();
    const bool names_key = what.find("data.columns") != std::string::npos;
    throw BadRow(what + (names_key ? " (dpo score: --columns NAME=COLUMN)" : ""));
  }
}

}  // namespace

void for_each_line(const std::string& file,
                   const std::function<void(const std::string& line, const std::string& origin)>& visit) {
  const bool is_stdin = file == "-";
  CharReader reader(is_stdin ? std::make_unique<StdinBytes>() : open_bytes(file));
  std::string line;
  while (const std::int64_t number = reader.read_line(line, kLongestLine)) {
    const std::string origin = fmt::format("{}:{}", is_stdin ? "stdin" : file, number);
    if (line.size() > kLongestLine)
      throw UserError(fmt::format("{}: longer than {} MiB", origin, kLongestLine >> 20));
    visit(line, origin);
  }
}

std::vector<PromptLine> read_responses(const std::string& file, const ColumnNames& names) {
  std::vector<PromptLine> lines;
  for_each_row(file, [&](Value&& row, const std::string& origin) {
    lines.push_back({read_row(std::move(row), names), origin});
  });
  return lines;
}

std::vector<std::string> read_prompts(const std::string& file) {
  std::vector<std::string> prompts;
  for_each_prompt(
      file, [&](Value&& row, const std::string&) { prompts.push_back(prompt_text_of(row)); },
      [&](const std::string& line, const std::string&) { prompts.push_back(line); });
  return prompts;
}

std::vector<PromptLine> read_conversations(const std::string& file) {
  const ColumnNames names;
  std::vector<PromptLine> lines;
  for_each_prompt(
      file,
      [&](Value&& row, const std::string& origin) {
        const Columns columns(row, names);
        lines.push_back(prompt_line(conversation_of(columns), origin, columns.find("tools"),
                                    columns.find("chat_template_kwargs")));
      },
      [&](const std::string& line, const std::string& origin) {
        lines.push_back(prompt_line({make_message("user", replace_invalid_utf8(line))}, origin));
      });
  return lines;
}

}  // namespace dpo::data
