#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/parallel.h"
#include "config/text.h"
#include "data/bytes.h"
#include "data/loader.h"
#include "data/rows.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kDeepest = 64;

// "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error ..." from the column on.
std::string reason_of(const Json::exception& error) {
  std::string_view text = error.what();
  if (const auto at = text.find("column "); at != std::string_view::npos) text.remove_prefix(at);
  return fmt::format("not valid JSON: {}", config::shown(text));
}

// Builds values from the parser's events, with a stack of open values. A value that is finished at depth
// `row_depth` is a row.
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
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
    problem_ = reason_of(error);
    return false;
  }

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

// The next lines, about `bytes` of them.
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

// A file that is one JSON array, and the number of bytes since the last complete row.
struct ArrayFile {
  fs::path path;
  CharReader in;
  std::size_t since_row = 0;

  void advance() {
    in.next();
    if (++since_row > kLongestRow)
      throw UserError(
          fmt::format("{}:{}: a row longer than {} bytes", path.string(), in.line(), kLongestRow));
  }
};

// Its characters as an input iterator for the parser.
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
  Builder fast(0, take);
  if (JsonReader(line, fast).read()) return value;
  // The other parser says what is wrong.
  Builder builder(0, take);
  if (!Json::sax_parse(line.begin(), line.end(), &builder))
    throw BadRow(builder.problem().value_or("not valid JSON"));
  return value;
}

void read_json_lines(const fs::path& file, const TakeRows& take) {
  constexpr std::size_t kFirstBlock = 256u << 10, kBlock = 4u << 20;
  CharReader in(open_bytes(file));
  std::size_t bytes = kFirstBlock;  // the first rows may be all that is asked for
  const auto next_lines = [&]() -> std::optional<std::vector<Line>> {
    std::vector<Line> lines = read_lines(in, std::exchange(bytes, std::min(2 * bytes, kBlock)));
    return lines.empty() ? std::nullopt : std::optional(std::move(lines));
  };
  // Decompresses a block while the one before is parsed and the one before that is used.
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
      file.since_row = 0;
      return more = block.add(row_of(std::move(row), file.in.line()));
    });
    const bool whole = Json::sax_parse(CharIterator(&file), CharIterator(nullptr), &builder);
    // After broken syntax the start of the next row is unknown, so it cannot be skipped.
    if (!whole && more)
      throw UserError(fmt::format("{}:{}: {}", path.string(), file.in.line(),
                                  builder.problem().value_or("not valid JSON")));
  });
}

}  // namespace dpo::data
