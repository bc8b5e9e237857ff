#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

// Takes the header's JSON event by event, so that a hostile one is refused where it goes wrong and never
// built.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(Header& header) : header_(header) {}

  const std::string& problem() const { return problem_; }

  bool start_object(std::size_t) override {
    return ++depth_ <= 2 || refuse("an object in an unexpected place");
  }

  bool end_object() override {
    const bool good = depth_ == 1 || name_ == kMetadata || finish_entry();
    --depth_;
    return good;
  }

  bool key(std::string& text) override { return depth_ == 1 ? start_entry(text) : start_field(text); }

  bool string(std::string& text) override {
    if (depth_ != 2) return refuse("a string in an unexpected place");
    if (name_ == kMetadata) return header_.metadata[field_] = text, true;
    if (field_ != "dtype") return refuse(fmt::format("'{}' is a string", field_));
    const auto dtype = dtype_named(text);
    if (!dtype) return refuse(fmt::format("dtype '{}' is not known", text));
    entry_.dtype = *dtype;
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || list_ || name_ == kMetadata || field_ == "dtype")
      return refuse("a list in an unexpected place");
    list_ = true;
    return true;
  }

  bool end_array() override {
    list_ = false;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!list_) return refuse("a number in an unexpected place");
    if (field_ == "data_offsets") return offsets_.push_back(value), true;
    if (value > INT64_MAX) return refuse(fmt::format("a size of {} is too large", value));
    entry_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return refuse(fmt::format("the number {} is negative", value));
  }
  bool number_float(number_float_t, const std::string& text) override {
    return refuse(fmt::format("'{}' is not a whole number", text));
  }
  bool null() override { return refuse("null in an unexpected place"); }
  bool boolean(bool) override { return refuse("true or false in an unexpected place"); }
  bool binary(json::binary_t&) override { return refuse("bytes in an unexpected place"); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("the header is not valid JSON at byte {}", at));
  }

 private:
  bool refuse(const std::string& why) {
    problem_ = depth_ >= 2 ? fmt::format("tensor '{}': {}", name_, why) : why;
    return false;
  }

  bool start_entry(const std::string& text) {
    name_ = text;
    entry_ = {};
    entry_.name = text;
    offsets_.clear();
    fields_.clear();
    return names_.insert(text).second || refuse(fmt::format("the name '{}' occurs twice", text));
  }

  bool start_field(const std::string& text) {
    field_ = text;
    if (!fields_.insert(text).second) return refuse(fmt::format("'{}' occurs twice", text));
    const bool known = text == "dtype" || text == "shape" || text == "data_offsets";
    return name_ == kMetadata || known || refuse(fmt::format("'{}' is not known", text));
  }

  bool finish_entry() {
    for (const char* needed : {"dtype", "shape", "data_offsets"})
      if (!fields_.count(needed)) return refuse(fmt::format("'{}' is missing", needed));
    if (offsets_.size() != 2)
      return refuse(fmt::format("'data_offsets' has {} numbers, expected 2", offsets_.size()));
    if (offsets_[0] > offsets_[1]) return refuse("'data_offsets' run backwards");
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.entries.push_back(std::move(entry_));
    return true;
  }

  Header& header_;
  std::string problem_;
  int depth_ = 0;
  bool list_ = false;
  std::string name_;
  std::string field_;
  Entry entry_;
  std::vector<std::uint64_t> offsets_;
  std::set<std::string> fields_;
  std::set<std::string> names_;
};

// Bytes that the shape asks for, if they can be counted at all.
std::optional<std::uint64_t> bytes_of_shape(const Entry& entry) {
  std::uint64_t bytes = size_of(entry.dtype);
  for (const std::int64_t size : entry.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return std::nullopt;
  return bytes;
}

// No holes, no overlaps, nothing behind the end, and every tensor as large as its shape.
std::string check_layout(const Header& header, std::uint64_t data_size) {
  std::uint64_t end = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != end)
      return fmt::format("tensor '{}' begins at byte {}, expected {}: the data has a hole or tensors overlap",
                         entry.name, entry.begin, end);
    const auto bytes = bytes_of_shape(entry);
    if (!bytes || *bytes != entry.end - entry.begin)
      return fmt::format("tensor '{}' has {} bytes, which is not what its shape and dtype ask for",
                         entry.name, entry.end - entry.begin);
    end = entry.end;
  }
  if (end != data_size)
    return fmt::format(
        "the tensors end at byte {} of the data, the file at {}: it is cut off or has more than it says", end,
        data_size);
  return "";
}

}  // namespace

Header parse_safetensors(std::span<const std::byte> file, const std::string& origin) {
  const auto fail = [&origin](const std::string& why) {
    throw UserError(origin + ": not a valid safetensors file: " + why);
  };
  if (file.size() < kLengthBytes) fail(fmt::format("it has {} bytes", file.size()));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<std::uint64_t>(file[i]) << (8 * i);
  if (length > kLongestHeader)
    fail(fmt::format("its header claims {} bytes, at most {} are allowed", length, kLongestHeader));
  if (length > file.size() - kLengthBytes)
    fail(fmt::format("its header claims {} bytes, the file has {}", length, file.size()));
  Header header;
  header.data_start = kLengthBytes + length;
  const auto text = file.subspan(kLengthBytes, length);
  const auto* begin = reinterpret_cast<const char*>(text.data());
  HeaderReader reader(header);
  if (!json::sax_parse(begin, begin + text.size(), &reader)) fail(reader.problem());
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const std::string problem = check_layout(header, file.size() - header.data_start);
  if (!problem.empty()) fail(problem);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path, "weights"), header_(parse_safetensors(file_.bytes(), path.string())) {}

std::span<const std::byte> SafetensorsFile::bytes_of(const Entry& entry) const {
  return file_.bytes().subspan(header_.data_start + entry.begin, entry.end - entry.begin);
}

}  // namespace dpo::checkpoint
