#include "base/number_line.h"

#include <cstdint>

#include "base/json_reader.h"

namespace dpo {
namespace {

// Keeps the numbers of the outermost object.
class Numbers {
 public:
  explicit Numbers(NamedNumbers& numbers) : numbers_(numbers) {}

  bool null() { return is_object(); }
  bool boolean(bool) { return is_object(); }
  bool number_integer(std::int64_t value) { return add(static_cast<double>(value)); }
  bool number_unsigned(std::uint64_t value) { return add(static_cast<double>(value)); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(const std::string&) { return is_object(); }
  bool start_object(std::size_t) { return begin(); }
  bool end_object() { return end(); }
  bool start_array(std::size_t) { return depth_ > 0 && begin(); }
  bool end_array() { return end(); }
  bool key(const std::string& name) {
    if (depth_ > 1) return true;
    if (count_ == numbers_.size()) numbers_.emplace_back();
    numbers_[count_].first = name;
    return true;
  }

  std::size_t count() const { return count_; }

 private:
  static constexpr int kDeepest = 64;

  bool is_object() const { return depth_ > 0; }
  bool begin() { return ++depth_ < kDeepest; }
  bool end() {
    --depth_;
    return true;
  }
  bool add(double value) {
    if (depth_ == 1) numbers_[count_++].second = value;
    return is_object();
  }

  NamedNumbers& numbers_;
  std::size_t count_ = 0;
  int depth_ = 0;
};

}  // namespace

bool read_numbers(std::string_view line, NamedNumbers& numbers) {
  Numbers handler(numbers);
  const bool is_read = JsonReader(line, handler).read();
  numbers.resize(is_read ? handler.count() : 0);
  return is_read;
}

}  // namespace dpo
