#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace dpo {
namespace {

struct Sequence {
  std::size_t length;  // of the character, or of the invalid part
  bool valid;
};

// Recognizes the well-formed sequences of table 3-7 of the Unicode standard. The second byte's range depends
// on the first, which excludes overlong forms, surrogates and everything beyond U+10FFFF.
Sequence sequence_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1) {
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
  }
  return {length, true};
}

}  // namespace

std::size_t count_characters(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

std::size_t byte_of_character(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (!continues_character(text[at]) && index-- == 0) return at;
  return at;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;  // most text is ASCII: checks eight bytes at once
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const Sequence sequence = sequence_at(text, at);
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return text.size();
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Sequence sequence = sequence_at(text, at);
    if (sequence.valid)
      out.append(text, at, sequence.length);
    else
      out += kReplacementCharacter;
    at += sequence.length;
  }
  return out;
}

}  // namespace dpo
