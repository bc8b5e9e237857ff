#include "track/protobuf.h"

#include <bit>
#include <optional>

namespace dpo::track {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_fixed(std::string& out, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
}

// Takes bytes from the front of a text. Returns nullopt if there are too few.
std::optional<std::string_view> take(std::string_view& text, std::uint64_t size) {
  if (size > text.size()) return std::nullopt;
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(size);
  return taken;
}

std::optional<std::uint64_t> take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take(text, 1);
    if (!byte) return std::nullopt;
    value |= static_cast<std::uint64_t>((*byte)[0] & 0x7F) << shift;
    if (!((*byte)[0] & 0x80)) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> take_fixed(std::string_view& text, std::uint64_t size) {
  const auto bytes = take(text, size);
  if (!bytes) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>((*bytes)[i])) << (8 * i);
  return value;
}

std::optional<Field> take_field(std::string_view& text) {
  const auto tag = take_varint(text);
  if (!tag) return std::nullopt;
  Field field{.number = static_cast<int>(*tag >> 3)};
  const auto type = static_cast<int>(*tag & 7);
  std::optional<std::uint64_t> value;
  if (type == kVarint || type == kLength) value = take_varint(text);
  if (type == kFixed64) value = take_fixed(text, 8);
  if (type == kFixed32) value = take_fixed(text, 4);
  if (!value) return std::nullopt;
  field.value = *value;
  if (type != kLength) return field;
  const auto bytes = take(text, *value);
  if (!bytes) return std::nullopt;
  field.bytes = *bytes;
  return field;
}

}  // namespace

void Message::tag(int field, int type) {
  append_varint(bytes_, static_cast<std::uint64_t>(field << 3 | type));
}

Message& Message::number(int field, std::int64_t value) {
  tag(field, kVarint);
  append_varint(bytes_, static_cast<std::uint64_t>(value));
  return *this;
}

Message& Message::real(int field, double value) {
  tag(field, kFixed64);
  append_fixed(bytes_, std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

Message& Message::real32(int field, float value) {
  tag(field, kFixed32);
  append_fixed(bytes_, std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

Message& Message::reals(int field, std::span<const double> values) {
  std::string packed;
  for (const double value : values) append_fixed(packed, std::bit_cast<std::uint64_t>(value), 8);
  return text(field, packed);
}

Message& Message::text(int field, std::string_view bytes) {
  tag(field, kLength);
  append_varint(bytes_, bytes.size());
  bytes_ += bytes;
  return *this;
}

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const auto field = take_field(message);
    if (!field) break;
    fields.push_back(*field);
  }
  return fields;
}

Field field_of(std::string_view message, int number) {
  for (const Field& field : fields_of(message))
    if (field.number == number) return field;
  return {};
}

}  // namespace dpo::track
