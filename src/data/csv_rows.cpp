#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"
#include "config/text.h"
#include "data/bytes.h"
#include "data/rows.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

// Reads the records of RFC 4180: fields separated by commas. A quoted field may contain commas, newlines and
// doubled quotes.
class CsvReader {
 public:
  explicit CsvReader(const fs::path& file) : file_(file), in_(open_bytes(file)) {}

  std::int64_t line() const { return line_; }

  // Returns the next record that is not an empty line, or nullopt at the end.
  std::optional<std::vector<std::string>> next() {
    while (in_.peek() == '\n' || in_.peek() == '\r') in_.next();
    if (in_.peek() == CharReader::kEnd) return std::nullopt;
    line_ = in_.line();
    size_ = 0;
    std::vector<std::string> fields;
    do {
      fields.push_back(in_.peek() == '"' ? quoted_field() : plain_field());
    } while (ends_with_comma());
    return fields;
  }

 private:
  // Throws a UserError. After broken quotes the start of the next record is unknown, so the file cannot be
  // read further.
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}:{}: {}", file_.string(), line_, what));
  }

  void add(std::string& field, int c) {
    if (++size_ > kLongestRow)
      fail(fmt::format("a record longer than {} bytes; is a quote missing?", kLongestRow));
    field.push_back(static_cast<char>(c));
  }

  std::string plain_field() {
    std::string field;
    for (int c = in_.peek(); c != ',' && c != '\n' && c != CharReader::kEnd; c = in_.peek()) {
      add(field, c);
      in_.next();
    }
    if (in_.peek() != ',' && field.ends_with('\r')) field.pop_back();
    return field;
  }

  std::string quoted_field() {
    std::string field;
    in_.next();
    while (true) {
      const int c = in_.next();
      if (c == CharReader::kEnd) fail("a quoted field is not closed");
      if (c != '"') {
        add(field, c);
      } else if (in_.peek() == '"') {
        add(field, in_.next());
      } else {
        return field;
      }
    }
  }

  bool ends_with_comma() {
    if (in_.peek() == '\r') in_.next();
    const int c = in_.next();
    if (c != ',' && c != '\n' && c != CharReader::kEnd)
      fail(fmt::format("a quoted field is followed by '{}', expected a comma or the end of the line",
                       config::shown(std::string(1, static_cast<char>(c)))));
    return c == ',';
  }

  fs::path file_;
  CharReader in_;
  std::int64_t line_ = 1;
  std::size_t size_ = 0;  // size of the current record
};

Value row_of(const std::vector<std::string>& names, std::vector<std::string>&& fields) {
  if (fields.size() != names.size())
    throw BadRow(fmt::format("got {} fields, expected {} as in the first line", fields.size(), names.size()));
  Value row;
  row.kind = Value::Kind::Map;
  row.names = names;
  for (std::string& field : fields) {
    if (!is_valid_utf8(field)) throw BadRow("invalid UTF-8");
    row.items.push_back(Value::of(std::move(field)));
  }
  return row;
}

// Rejects a header that is not a row of column names, because the file uses other separators or is JSON.
void check_header(const fs::path& file, const std::vector<std::string>& names) {
  const std::string& first = names.front();
  if (first.starts_with('{') || first.starts_with('['))
    throw UserError(fmt::format("{}: the first line is JSON, expected column names; name the file .jsonl",
                                file.string()));
  if (names.size() == 1 && first.find_first_of(";\t") != first.npos)
    throw UserError(
        fmt::format("{}: the first line has one column, '{}', expected names with commas between them; "
                    "save it with commas",
                    file.string(), config::shown(first)));
}

}  // namespace

void read_csv(const fs::path& file, const TakeRows& take) {
  CsvReader in(file);
  const auto names = in.next();
  if (!names)
    throw UserError(fmt::format("{}: is empty, expected a first line with column names", file.string()));
  check_header(file, *names);
  read_by_block(take, [&](RowBlock& block) {
    while (auto fields = in.next())
      if (!block.add(in.line(), [&] { return row_of(*names, std::move(*fields)); })) return;
  });
}

}  // namespace dpo::data
