// GPT-2's byte-level alphabet, which writes every byte as one printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dpo::text {

std::string to_byte_level(std::string_view bytes);

// Returns nullopt if a character does not represent a byte.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace dpo::text
