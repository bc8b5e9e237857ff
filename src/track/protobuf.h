// Protocol buffers without their library: the few messages of the trackers are written field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::track {

// Encodes a message. A message inside it is a field with that message's bytes.
class Message {
 public:
  Message& number(int field, std::int64_t value);  // int32, int64, bool or an enumeration
  Message& real(int field, double value);
  Message& real32(int field, float value);
  Message& reals(int field, std::span<const double> values);  // packed
  Message& text(int field, std::string_view bytes);           // a string, bytes or a message

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int type);

  std::string bytes_;
};

struct Field {
  int number = 0;
  std::uint64_t value = 0;   // a whole number, or the bits of a double or float
  std::string_view bytes{};  // of a string or message
};

// The fields of a message, up to the first that is cut off or unknown. They point into `message`.
std::vector<Field> fields_of(std::string_view message);

// The first field of that number; without one, a field that is 0 and empty.
Field field_of(std::string_view message, int number);

}  // namespace dpo::track
