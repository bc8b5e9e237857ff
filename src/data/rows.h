// Rows of files of any format: JSON lines, a JSON array, CSV or Parquet; plain, gzip or zstd.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::data {

// A value of a row, from any kind of file.
struct Value {
  enum class Kind { Null, Bool, Number, Text, List, Map, Other };

  Kind kind = Kind::Null;
  // The text; the digits of a Number, as JSON writes them (empty: as Python would); the name of an Other.
  std::string text;
  double number = 0;               // of a Number; of a Bool, 0 or 1
  std::vector<std::string> names;  // of a Map's items
  std::vector<Value> items;        // of a List or a Map

  static Value of(std::string text) { return {Kind::Text, std::move(text), 0, {}, {}}; }
  static Value of(double number) { return {Kind::Number, {}, number, {}, {}}; }
  // A value that cannot be part of an example, such as an image. Only unused columns may have it.
  static Value of_other(std::string name) { return {Kind::Other, std::move(name), 0, {}, {}}; }
  static Value of_flag(bool flag) { return {Kind::Bool, {}, flag ? 1.0 : 0.0, {}, {}}; }
  // A number with its digits: integers stay integers, and large ones exact.
  static Value of(double number, std::string digits) {
    return {Kind::Number, std::move(digits), number, {}, {}};
  }

  bool operator==(const Value&) const = default;

  // The item of a map; null if there is none. Of several with the same name the last counts, as in Python.
  const Value* find(std::string_view name) const;

  // "a string", "a list": for messages.
  std::string_view kind_name() const;

  // The first Other in it or itself; null if there is none.
  const Value* find_other() const;
};

// Adds a value as JSON on one line. An Other is a BadRow.
void append_json(std::string& out, const Value& value);

// What is wrong with one row; the reader of the file adds the line.
struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bad rows: the first is a UserError (FILE:LINE: ...), or they are skipped and counted.
class BadRows {
 public:
  explicit BadRows(bool skip) : skip_(skip) {}

  void add(const std::filesystem::path& file, std::int64_t line, const std::string& what);

  std::int64_t count() const { return count_; }
  const std::vector<std::string>& examples() const { return examples_; }  // the first few

 private:
  bool skip_;
  std::int64_t count_ = 0;
  std::vector<std::string> examples_;
};

// A row of a file: a Map, or what is wrong with it.
struct Row {
  Value value;
  std::int64_t line = 0;  // in Parquet files its number
  std::string problem;
};

// Reads a file in blocks of rows, in bounded memory. `take` returns whether to continue.
using TakeRows = std::function<bool(std::vector<Row>&& rows)>;
void read_row_blocks(const std::filesystem::path& file, const TakeRows& take);

// Reads a file row by row. `take` may throw BadRow and returns whether to continue. Rows that cannot be read,
// or that it refuses, go to `bad`.
using TakeRow = std::function<bool(Value&& row, std::int64_t line)>;
void read_rows(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);

// Whether read_rows knows the format of a file, by its name.
bool is_row_file(const std::filesystem::path& file);

// A line of JSON; BadRow if it is not.
Value parse_row(std::string_view line);

// One reader per format.
void read_json_lines(const std::filesystem::path& file, const TakeRows& take);
void read_json_array(const std::filesystem::path& file, const TakeRows& take);
void read_csv(const std::filesystem::path& file, const TakeRows& take);
void read_parquet(const std::filesystem::path& file, const TakeRows& take);

// Collects rows that a reader finds one by one. The functions return whether to continue.
class RowBlock {
 public:
  explicit RowBlock(const TakeRows& take) : take_(take) {}
  bool add(Row&& row);
  // Makes a row of what `make` returns, or of the BadRow that it throws.
  bool add(std::int64_t line, const std::function<Value()>& make);
  bool flush();

 private:
  const TakeRows& take_;
  std::vector<Row> rows_;
  bool more_ = true;
};

// Runs a reader that adds to a block. Rows before an error count: they may be enough.
void read_by_block(const TakeRows& take, const std::function<void(RowBlock& block)>& read);

// A longer row is refused, so that a bad file does not exhaust the memory.
inline constexpr std::size_t kLongestRow = 16u << 20;

}  // namespace dpo::data
