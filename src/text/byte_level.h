// The byte-level alphabet: every byte as one printable character, as vocabularies of GPT-2's kind write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dpo::text {

// Bytes to their characters.
std::string map_bytes(std::string_view bytes);

// Characters to their bytes; nothing if one of them stands for no byte.
std::optional<std::string> bytes_of_mapped(std::string_view text);

}  // namespace dpo::text
