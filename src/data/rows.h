// Rows of files, whatever their format: JSON lines, a JSON array, CSV or Parquet; plain, gzip or zstd.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/value.h"

namespace dpo::data {

// What is wrong with one row; whoever reads the file adds where it stands.
struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What became of rows that are wrong: the first is an error (UserError, FILE:LINE: ...), or they are counted.
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

// Takes one row, a Map; may throw BadRow. Returns whether it wants more.
using TakeRow = std::function<bool(Value&& row)>;

// Reads a file row by row, in bounded memory. A row that cannot be read, or that `take` refuses, goes to
// `bad`.
void read_rows(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);

// Whether the name of a file says that read_rows knows its format.
bool is_row_file(const std::filesystem::path& file);

// The readers of one format each.
void read_json_lines(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);
void read_json_array(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);
void read_csv(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);
void read_parquet(const std::filesystem::path& file, const TakeRow& take, BadRows& bad);

// No honest row is longer; what is would only exhaust the memory.
inline constexpr std::size_t kLongestRow = 16u << 20;

}  // namespace dpo::data
