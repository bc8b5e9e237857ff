// Encodes and decodes protocol buffers without their library. TensorBoard needs few messages, which are
// written field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::track {

// Encodes a message. A nested message is a field with that message's bytes.
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
  std::uint64_t value = 0;   // an integer, or the bits of a double or float
  std::string_view bytes{};  // of a string or a message
};

// Returns the fields of a message, up to the first one that is truncated or of an unknown type. They point
// into `message`.
std::vector<Field> fields_of(std::string_view message);

// Returns the first field with that number, or an empty field of value 0.
Field field_of(std::string_view message, int number);

}  // namespace dpo::track
