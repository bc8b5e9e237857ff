#pragma once

#include <cstddef>
#include <string_view>

namespace dpo::data {

// Whether a byte of valid UTF-8 continues a character rather than beginning one.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// How many characters (code points) a valid text has; and the byte where character `index` begins, or the
// end.
std::size_t count_characters(std::string_view text);
std::size_t byte_of_character(std::string_view text, std::size_t index);

}  // namespace dpo::data
