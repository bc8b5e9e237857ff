// GPT-2's byte-level alphabet: every byte as one printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dpo::text {

std::string to_byte_level(std::string_view bytes);

// nullopt if a character stands for no byte.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace dpo::text
