#include "checkpoint/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/output_files.h"

namespace dpo::checkpoint {
namespace {

using nlohmann::json;

struct DtypeFacts {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DtypeFacts, 10> kDtypes = {{{"F64", 8},
                                                 {"F32", 4},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"I64", 8},
                                                 {"I32", 4},
                                                 {"I16", 2},
                                                 {"I8", 1},
                                                 {"U8", 1},
                                                 {"BOOL", 1}}};

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

// Parses the header's JSON event by event, so that a malicious one is rejected at its first error and never
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
    if (!dtype) return refuse(fmt::format("unknown dtype '{}'", text));
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
    return name_ == kMetadata || known || refuse(fmt::format("unknown field '{}'", text));
  }

  bool finish_entry() {
    for (const char* needed : {"dtype", "shape", "data_offsets"})
      if (!fields_.count(needed)) return refuse(fmt::format("'{}' is missing", needed));
    if (offsets_.size() != 2)
      return refuse(fmt::format("'data_offsets' has {} numbers, expected 2", offsets_.size()));
    if (offsets_[0] > offsets_[1]) return refuse("'data_offsets' are reversed");
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

// Returns the bytes of a tensor with this shape, or nullopt on overflow.
std::optional<std::uint64_t> bytes_of_shape(const Entry& entry) {
  std::uint64_t bytes = size_of(entry.dtype);
  for (const std::int64_t size : entry.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return std::nullopt;
  return bytes;
}

// Returns a problem if there are holes or overlaps, bytes after the last tensor, or a tensor whose size does
// not match its shape.
std::string check_layout(const Header& header, std::uint64_t data_size) {
  std::uint64_t end = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != end)
      return fmt::format("tensor '{}' begins at byte {}, expected {}: the data has a hole or tensors overlap",
                         entry.name, entry.begin, end);
    const auto bytes = bytes_of_shape(entry);
    if (!bytes || *bytes != entry.end - entry.begin)
      return fmt::format("tensor '{}' has {} bytes, which does not match its shape and dtype", entry.name,
                         entry.end - entry.begin);
    end = entry.end;
  }
  if (end != data_size)
    return fmt::format(
        "the tensors end at byte {} of the data, the file at {}: it is truncated or has extra bytes", end,
        data_size);
  return "";
}

// Returns a dtype's position in files of the Python library, which puts the widest alignment first.
int order_of(Dtype dtype) {
  constexpr std::array kOrder = {Dtype::I64, Dtype::F64, Dtype::F32, Dtype::I32, Dtype::BF16,
                                 Dtype::F16, Dtype::I16, Dtype::I8,  Dtype::U8,  Dtype::BOOL};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

std::string json_of(const std::vector<Entry>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const Entry& tensor : tensors)
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string_view name_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].name; }
std::size_t size_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].size; }

std::optional<Dtype> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

Header parse_safetensors(std::span<const std::byte> file, const std::string& origin) {
  const auto fail = [&origin](const std::string& why) {
    throw UserError(origin + ": not a valid safetensors file: " + why);
  };
  if (file.size() < kLengthBytes) fail(fmt::format("it has {} bytes", file.size()));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<std::uint64_t>(file[i]) << (8 * i);
  if (length > kLongestHeader)
    fail(fmt::format("its header claims {} bytes, the limit is {}", length, kLongestHeader));
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

std::uint64_t Entry::bytes() const {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

SafetensorsPlan plan_safetensors(std::vector<Entry> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Entry& a, const Entry& b) {
    return std::pair(order_of(a.dtype), std::string_view(a.name)) <
           std::pair(order_of(b.dtype), std::string_view(b.name));
  });
  std::uint64_t end = 0;
  for (Entry& tensor : tensors) {
    tensor.begin = end;
    end = tensor.end = tensor.begin + tensor.bytes();
  }
  const std::string header = json_of(tensors);
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return {length + header, std::move(tensors)};
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors) {
  std::vector<Entry> entries;
  std::map<std::string_view, const TensorToWrite*> named;
  for (const TensorToWrite& source : tensors) {
    entries.push_back({source.name, source.dtype, source.shape});
    named[source.name] = &source;
  }
  const SafetensorsPlan plan = plan_safetensors(std::move(entries));
  AtomicFile file(path);
  file.write(plan.head);
  for (const Entry& entry : plan.entries) file.write(named.at(entry.name)->bytes());
  file.commit();
}

}  // namespace dpo::checkpoint
