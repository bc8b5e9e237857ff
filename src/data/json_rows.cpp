#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/json_reader.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "data/bytes.h"
#include "data/loader.h"
#include "data/rows.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kDeepest = 64;

std::string not_json(std::size_t column, std::string_view what, std::string_view near) {
  return fmt::format("not valid JSON at column {}: {}{}", column, what,
                     near.empty() ? "" : fmt::format("; near '{}'", near));
}

// Returns a hint at the cause of a line that is not an object.
std::string line_hint(std::string_view line, const JsonProblem& problem) {
  const std::size_t start = line.find_first_not_of(" \t");
  const char first = start == line.npos ? ' ' : line[start];
  if (first == '{' && problem.ends_early)
    return "; an object must be whole on its line, or the file a list: [{...}, ...]";
  if (first == '{' && line[problem.at] == ',' && line.find_first_not_of(" \t\r", problem.at + 1) == line.npos)
    return "; remove the comma, or make the file a list: [{...}, ...]";
  if (first == '<') return "; this looks like a web page in place of the file";
  if (first != '{' && first != '[') return "; each line is an object {...}; a CSV file is named .csv";
  return "";
}

std::string why_no_row(std::string_view line) {
  const std::optional<JsonProblem> problem = json_problem(line, "line");
  if (!problem) return "not valid JSON";
  return not_json(problem->column, problem->what, problem->near) + line_hint(line, *problem);
}

// Builds values from the parser's events, with a stack of open values. A value that ends at depth `row_depth`
// is a row.
class Builder {
 public:
  using Row = std::function<bool(Value&&)>;

  Builder(std::size_t row_depth, Row row) : row_depth_(row_depth), row_(std::move(row)) { open_.reserve(4); }

  const std::optional<std::string>& problem() const { return problem_; }

  bool null() { return finish({}); }
  bool boolean(bool flag) { return finish(Value::of_flag(flag)); }
  bool number_integer(std::int64_t number) { return finish_integer(number); }
  bool number_unsigned(std::uint64_t number) { return finish_integer(number); }
  bool number_float(double number, const std::string& digits) { return finish(Value::of(number, digits)); }
  bool string(std::string& text) { return finish(Value::of(std::move(text))); }
  bool binary(Json::binary_t&) { return false; }
  bool key(std::string& name) {
    open_.back().names.push_back(std::move(name));
    return true;
  }
  bool start_object(std::size_t) { return open(Value::Kind::Map); }
  bool start_array(std::size_t) { return open(Value::Kind::List); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }

 private:
  bool open(Value::Kind kind) {
    if (open_.size() == kDeepest) {
      problem_ = fmt::format("nested more than {} levels deep", kDeepest);
      return false;
    }
    Value& value = open_.emplace_back();
    value.kind = kind;
    value.items.reserve(2);  // a message has a role and a content
    if (kind == Value::Kind::Map) value.names.reserve(2);
    return true;
  }

  bool close() {
    Value value = std::move(open_.back());
    open_.pop_back();
    return finish(std::move(value));
  }

  bool finish_integer(auto number) {
    return finish(Value::of(static_cast<double>(number), std::to_string(number)));
  }

  bool finish(Value&& value) {
    if (open_.size() == row_depth_) return row_(std::move(value));
    if (open_.empty()) return true;  // the array around the rows
    open_.back().items.push_back(std::move(value));
    return true;
  }

  std::size_t row_depth_;
  Row row_;
  std::vector<Value> open_;
  std::optional<std::string> problem_;
};

struct Line {
  std::string text;
  std::int64_t number = 0;
};

// Reads the next lines, about `bytes` of them.
std::vector<Line> read_lines(CharReader& in, std::size_t bytes) {
  std::vector<Line> lines;
  std::size_t size = 0;
  while (size < bytes) {
    Line line;
    line.number = in.read_line(line.text, kLongestRow);
    if (line.number == 0) break;
    size += line.text.size();
    lines.push_back(std::move(line));
  }
  return lines;
}

Row row_of(Value&& value, std::int64_t line) {
  if (value.kind == Value::Kind::Map) return {std::move(value), line, {}};
  return {{}, line, fmt::format("got {}, expected an object with named columns", value.kind_name())};
}

Row parse_line(Line line) {
  try {
    return row_of(parse_row(line.text), line.number);
  } catch (const BadRow& bad) {
    return {{}, line.number, bad.what()};
  }
}

// A file that is one JSON array. `row_end` is the number of bytes up to the end of the last complete row, and
// `since_row` the number since then.
struct ArrayFile {
  fs::path path;
  CharReader in;
  std::uint64_t row_end = 0;
  std::size_t since_row = 0;

  void advance() {
    in.next();
    if (++since_row > kLongestRow)
      throw UserError(
          fmt::format("{}:{}: a row longer than {} bytes", path.string(), in.line(), kLongestRow));
  }

  // Marks the end of a row. The parser has already consumed the byte after a number.
  void end_row(const Value& row) {
    const std::size_t ahead = row.kind == Value::Kind::Number ? 1 : 0;
    row_end += since_row - ahead;
    since_row = ahead;
  }
};

// Reads the file again, a little further than the parser did, and throws a UserError that describes the
// error.
[[noreturn]] void refuse_array(const ArrayFile& file) {
  constexpr std::size_t kAround = 80;
  CharReader in(open_bytes(file.path));
  std::string read;
  std::size_t column = 1;  // column of the end of the last row, in characters, from 1
  for (std::uint64_t i = 0; i < file.row_end; ++i) {
    const auto c = static_cast<char>(in.next());
    column = c == '\n' ? 1 : column + (continues_character(c) ? 0 : 1);
    if (read.size() == 2 * kAround) read.erase(0, kAround);
    read += c;
  }
  const auto line = static_cast<std::size_t>(in.line());
  const std::size_t rows = read.size();
  for (std::size_t i = 0; i < file.since_row + kAround && in.peek() != CharReader::kEnd; ++i)
    read += static_cast<char>(in.next());
  while (continues_character(static_cast<char>(in.peek()))) read += static_cast<char>(in.next());
  const std::string start = rows > 0 ? "[0" : "";  // in place of the rows
  const auto problem = json_problem(start + read.substr(rows), "file");
  if (!problem) throw UserError(fmt::format("{}:{}: not valid JSON", file.path.string(), line));
  const std::size_t shift = problem->line == 1 ? column - 1 - start.size() : 0;
  throw UserError(fmt::format("{}:{}: {}{}", file.path.string(), line + problem->line - 1,
                              not_json(problem->column + shift, problem->what,
                                       piece_of_line(read, problem->at - start.size() + rows)),
                              problem->ends_early ? "; is it complete?" : ""));
}

// Input iterator for the parser over the file's characters.
class CharIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit CharIterator(ArrayFile* file) : file_(file) {}
  char operator*() const { return static_cast<char>(file_->in.peek()); }
  CharIterator& operator++() {
    file_->advance();
    return *this;
  }
  void operator++(int) { file_->advance(); }
  friend bool operator==(const CharIterator& a, const CharIterator& b) { return a.at_end() == b.at_end(); }
  friend bool operator!=(const CharIterator& a, const CharIterator& b) { return !(a == b); }

 private:
  bool at_end() const { return !file_ || file_->in.peek() == CharReader::kEnd; }

  ArrayFile* file_;
};

}  // namespace

Value parse_row(std::string_view line) {
  if (line.size() > kLongestRow) throw BadRow(fmt::format("a line longer than {} bytes", kLongestRow));
  Value value;
  const auto take = [&](Value&& row) {
    value = std::move(row);
    return true;
  };
  Builder builder(0, take);
  if (!JsonReader(line, builder).read()) throw BadRow(builder.problem().value_or(why_no_row(line)));
  return value;
}

void read_json_lines(const fs::path& file, const TakeRows& take) {
  constexpr std::size_t kFirstBlock = 256u << 10, kBlock = 4u << 20;
  CharReader in(open_bytes(file));
  std::size_t bytes = kFirstBlock;  // small, because the caller may need only the first rows
  const auto next_lines = [&]() -> std::optional<std::vector<Line>> {
    std::vector<Line> lines = read_lines(in, std::exchange(bytes, std::min(2 * bytes, kBlock)));
    return lines.empty() ? std::nullopt : std::optional(std::move(lines));
  };
  // Decompresses a block while the previous one is parsed and the one before that is used.
  Loader<std::vector<Line>> blocks(next_lines, 1);
  const auto next_rows = [&]() -> std::optional<std::vector<Row>> {
    std::optional<std::vector<Line>> lines = blocks.next();
    if (!lines) return std::nullopt;
    std::vector<Row> rows(lines->size());
    for_each_parallel(rows.size(), [&](std::size_t i) { rows[i] = parse_line(std::move((*lines)[i])); });
    return rows;
  };
  Loader<std::vector<Row>> parsed(next_rows, 1);
  while (std::optional<std::vector<Row>> rows = parsed.next())
    if (!take(std::move(*rows))) return;
}

void read_json_array(const fs::path& path, const TakeRows& take) {
  ArrayFile file{path, CharReader(open_bytes(path))};
  read_by_block(take, [&](RowBlock& block) {
    bool more = true;
    Builder builder(1, [&](Value&& row) {
      file.end_row(row);
      return more = block.add(row_of(std::move(row), file.in.line()));
    });
    const bool whole = Json::sax_parse(CharIterator(&file), CharIterator(nullptr), &builder);
    // After broken syntax the start of the next row is unknown, so it cannot be skipped.
    if (whole || !more) return;
    if (const auto& problem = builder.problem())
      throw UserError(fmt::format("{}:{}: {}", path.string(), file.in.line(), *problem));
    refuse_array(file);
  });
}

}  // namespace dpo::data
