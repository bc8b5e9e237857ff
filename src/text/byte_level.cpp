#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace dpo::text {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character_of{};
  std::array<int, 0x144> byte_of{};
};

// Printable bytes represent themselves; the others become U+0100, U+0101, ... in order.
Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char32_t character = printable ? byte : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<int>(byte);
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet made = make_alphabet();
  return made;
}

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, alphabet().character_of[static_cast<unsigned char>(byte)]);
  return out;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.length;
    if (point.code >= alphabet().byte_of.size() || alphabet().byte_of[point.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(alphabet().byte_of[point.code]));
  }
  return out;
}

}  // namespace dpo::text
