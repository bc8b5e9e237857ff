#include "data/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/progress_count.h"
#include "config/text.h"
#include "data/bytes.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

// Returns the format by the extension: "data.jsonl.gz" -> ".jsonl".
std::string format_of(const fs::path& file) {
  fs::path name = file.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst" || name.extension() == ".zstd")
    name.replace_extension();
  return name.extension().string();
}

// Returns whether a JSON file is an array rather than lines. It is an array if it begins with a bracket,
// whatever its name is.
bool holds_array(const fs::path& file) {
  CharReader in(open_bytes(file));
  while (in.peek() == ' ' || in.peek() == '\n' || in.peek() == '\r' || in.peek() == '\t') in.next();
  return in.peek() == '[';
}

// Appends a quoted string with the escapes that JSON requires. The text must be valid UTF-8.
void append_json(std::string& out, const std::string& text) {
  const auto is_plain = [](char c) { return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20; };
  out += '"';
  for (auto at = text.begin(); at != text.end();) {
    const auto end = std::find_if_not(at, text.end(), is_plain);
    out.append(at, end);
    at = end;
    if (at == text.end()) break;
    if (*at == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(*at) < 0x20)
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(*at));
    else
      (out += '\\') += *at;
    ++at;
  }
  out += '"';
}

// Appends a number. A whole number that is a double gets a fraction, as in Python: 1.0, not 1.
void append_json(std::string& out, double number) {
  const std::string digits = std::isfinite(number) ? fmt::format("{}", number) : "null";
  out += digits;
  if (digits.find_first_not_of("-0123456789") == std::string::npos) out += ".0";
}

constexpr std::array<std::string_view, 5> kFormats = {".jsonl", ".json", ".ndjson", ".csv", ".parquet"};

}  // namespace

void append_json(std::string& out, const Value& value) {
  const bool is_map = value.kind == Value::Kind::Map;
  switch (value.kind) {
    case Value::Kind::Null: out += "null"; return;
    case Value::Kind::Bool: out += value.number != 0 ? "true" : "false"; return;
    case Value::Kind::Text: append_json(out, value.text); return;
    case Value::Kind::Number:
      if (value.text.empty())
        append_json(out, value.number);
      else
        out += value.text;
      return;
    case Value::Kind::Other: throw BadRow(fmt::format("the row contains {}", value.kind_name()));
    case Value::Kind::List:
    case Value::Kind::Map: break;
  }
  out += is_map ? '{' : '[';
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (is_map) {
      append_json(out, value.names[i]);
      out += ": ";
    }
    append_json(out, value.items[i]);
  }
  out += is_map ? '}' : ']';
}

const Value* Value::find(std::string_view name) const {
  for (std::size_t i = names.size(); i-- > 0;)
    if (names[i] == name) return &items[i];
  return nullptr;
}

std::string_view Value::kind_name() const {
  switch (kind) {
    case Kind::Null: return "null";
    case Kind::Bool: return "a boolean";
    case Kind::Number: return "a number";
    case Kind::Text: return "a string";
    case Kind::List: return "a list";
    case Kind::Map: return "an object";
    case Kind::Other: return text;
  }
  return "";
}

const Value* Value::find_other() const {
  if (kind == Kind::Other) return this;
  for (const Value& item : items)
    if (const Value* const other = item.find_other()) return other;
  return nullptr;
}

void BadRows::add(const fs::path& file, std::int64_t line, const std::string& what) {
  constexpr std::size_t kMostExamples = 5;
  const std::string problem = fmt::format("{}:{}: {}", file.string(), line, what);
  if (!skip_) throw UserError(problem + " (data.on_error=skip skips such rows)");
  ++count_;
  if (examples_.size() < kMostExamples) examples_.push_back(problem);
}

bool is_row_file(const fs::path& file) {
  return std::find(kFormats.begin(), kFormats.end(), format_of(file)) != kFormats.end();
}

bool RowBlock::add(Row&& row) {
  constexpr std::size_t kRows = 1024;
  rows_.push_back(std::move(row));
  return rows_.size() < kRows || flush();
}

bool RowBlock::add(std::int64_t line, const std::function<Value()>& make) {
  try {
    return add({make(), line, {}});
  } catch (const BadRow& bad) {
    return add({{}, line, bad.what()});
  }
}

bool RowBlock::flush() {
  if (more_ && !rows_.empty()) more_ = take_(std::exchange(rows_, {}));
  return more_;
}

void read_by_block(const TakeRows& take, const std::function<void(RowBlock& block)>& read) {
  RowBlock block(take);
  try {
    read(block);
  } catch (const UserError&) {
    if (block.flush()) throw;
  }
  block.flush();
}

void read_rows(const fs::path& file, const TakeRow& take, BadRows& bad) {
  const auto take_one = [&](Row& row) {
    if (row.problem.empty()) {
      try {
        return take(std::move(row.value), row.line);
      } catch (const BadRow& refused) {
        row.problem = refused.what();
      }
    }
    bad.add(file, row.line, row.problem);
    return true;
  };
  read_row_blocks(file, [&](std::vector<Row>&& rows) {
    count_progress();
    return std::ranges::all_of(rows, take_one);
  });
}

void read_row_blocks(const fs::path& file, const TakeRows& take) {
  const std::string format = format_of(file);
  if (!is_row_file(file))
    throw UserError(fmt::format("{}: {}, expected one of {}, or these with .gz or .zst", file.string(),
                                format.empty() ? "the name does not say what the file is"
                                               : fmt::format("unknown file type '{}'", config::shown(format)),
                                fmt::join(kFormats, ", ")));
  if (format == ".csv") return read_csv(file, take);
  if (format == ".parquet") {
    open_bytes(file);  // throws if this is a Git LFS pointer or cannot be opened
    return read_parquet(file, take);
  }
  if (holds_array(file)) return read_json_array(file, take);
  read_json_lines(file, take);
}

}  // namespace dpo::data
