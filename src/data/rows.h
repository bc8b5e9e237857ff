// Reads rows of files in any format: JSON lines, a JSON array, CSV or Parquet; plain, gzip or zstd.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::data {

// A value in a row of any file format.
struct Value {
  enum class Kind { Null, Bool, Number, Text, List, Map, Other };

  Kind kind = Kind::Null;
  // A Text's text, a Number's digits as in JSON (empty: formatted as Python would), or an Other's name.
  std::string text;
  double number = 0;               // value of a Number; 0 or 1 for a Bool
  std::vector<std::string> names;  // keys of a Map
  std::vector<Value> items;        // items of a List or values of a Map

  static Value of(std::string text) { return {Kind::Text, std::move(text), 0, {}, {}}; }
  static Value of(double number) { return {Kind::Number, {}, number, {}, {}}; }
  // Makes a value that cannot be part of an example, such as an image. Only unused columns may contain it.
  static Value of_other(std::string name) { return {Kind::Other, std::move(name), 0, {}, {}}; }
  static Value of_flag(bool flag) { return {Kind::Bool, {}, flag ? 1.0 : 0.0, {}, {}}; }
  // Makes a number that keeps its digits, so that integers stay integers and large ones stay exact.
  static Value of(double number, std::string digits) {
    return {Kind::Number, std::move(digits), number, {}, {}};
  }

  bool operator==(const Value&) const = default;

  // Returns the item of a map, or null if there is none. If several have this name, the last one counts, as
  // in Python.
  const Value* find(std::string_view name) const;

  // Describes the kind for messages: "a string", "a list".
  std::string_view kind_name() const;

  // Returns the first Other in this value, which may be the value itself, or null if there is none.
  const Value* find_other() const;
};

// Appends a value as JSON on one line. Throws BadRow for an Other.
void append_json(std::string& out, const Value& value);

// A problem with one row. The reader of the file adds the line number to the message.
struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Handles bad rows: either the first one throws a UserError (FILE:LINE: ...), or they are skipped and
// counted.
class BadRows {
 public:
  explicit BadRows(bool skip) : skip_(skip) {}

  void add(const std::filesystem::path& file, std::int64_t line, const std::string& what);

  std::int64_t count() const { return count_; }
  const std::vector<std::string>& examples() const { return examples_; }  // the first few bad rows

 private:
  bool skip_;
  std::int64_t count_ = 0;
  std::vector<std::string> examples_;
};

// A row of a file: a Map, or the problem with it.
struct Row {
  Value value;
  std::int64_t line = 0;  // the row number in Parquet files
  std::string problem;
};

// Reads a file in blocks of rows, in bounded memory. `take` returns whether to continue.
using TakeRows = std::function<bool(std::vector<Row>&& rows)>;
void read_row_blocks(const std::filesystem::path& file, const TakeRows& take);

// Reads a file row by row. `take` may throw BadRow and returns whether to continue. Rows that cannot be read,
// and those for which `take` throws, are added to `bad`.
using TakeRow = std::function<bool(Value&& row, std::int64_t line)>;
void read_rows(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);

// Returns whether read_rows knows the format of a file, by its name.
bool is_row_file(const std::filesystem::path& file);

// Parses a line of JSON. Throws BadRow if it is not valid JSON.
Value parse_row(std::string_view line);

// Read a file of one format.
void read_json_lines(const std::filesystem::path& file, const TakeRows& take);
void read_json_array(const std::filesystem::path& file, const TakeRows& take);
void read_csv(const std::filesystem::path& file, const TakeRows& take);
void read_parquet(const std::filesystem::path& file, const TakeRows& take);

// Collects rows that a reader finds one by one into blocks. The functions return whether to continue.
class RowBlock {
 public:
  explicit RowBlock(const TakeRows& take) : take_(take) {}
  bool add(Row&& row);
  // Makes a row from the value that `make` returns, or from the BadRow that it throws.
  bool add(std::int64_t line, const std::function<Value()>& make);
  bool flush();

 private:
  const TakeRows& take_;
  std::vector<Row> rows_;
  bool more_ = true;
};

// Runs a reader that adds rows to a block. Rows before an error are delivered, because they may be enough.
void read_by_block(const TakeRows& take, const std::function<void(RowBlock& block)>& read);

// Longer rows are rejected, so that a bad file does not exhaust the memory. [bytes]
inline constexpr std::size_t kLongestRow = 16u << 20;

}  // namespace dpo::data
