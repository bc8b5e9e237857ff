#include "data/rows.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "config/text.h"
#include "data/bytes.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

// "data.jsonl.gz" -> ".jsonl"
std::string format_of(const fs::path& file) {
  fs::path name = file.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst" || name.extension() == ".zstd")
    name.replace_extension();
  return name.extension().string();
}

// A .json file is an array or lines; an array begins with a bracket.
bool holds_array(const fs::path& file) {
  CharReader in(open_bytes(file));
  while (in.peek() == ' ' || in.peek() == '\n' || in.peek() == '\r' || in.peek() == '\t') in.next();
  return in.peek() == '[';
}

constexpr std::array<std::string_view, 5> kFormats = {".jsonl", ".json", ".ndjson", ".csv", ".parquet"};

}  // namespace

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
  }
  return "";
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

void read_rows(const fs::path& file, const TakeRow& take, BadRows& bad) {
  const std::string format = format_of(file);
  if (!is_row_file(file))
    throw UserError(fmt::format("{}: unknown file type '{}', expected one of {}, or these with .gz or .zst",
                                file.string(), config::shown(format), fmt::join(kFormats, ", ")));
  if (format == ".csv") return read_csv(file, take, bad);
  if (format == ".parquet") {
    open_bytes(file);  // for its errors: a Git LFS pointer, a file that cannot be opened
    return read_parquet(file, take, bad);
  }
  if (format != ".jsonl" && holds_array(file)) return read_json_array(file, take, bad);
  read_json_lines(file, take, bad);
}

}  // namespace dpo::data
