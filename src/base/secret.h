// Creates and compares secrets, and proves knowledge of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dpo {

// Returns `bytes` bytes of the system's random generator (getrandom), in hexadecimal digits.
std::string random_hex(std::size_t bytes);

// Returns the HMAC-SHA-256 of a text, in hexadecimal digits. Only a process with the key can compute it.
std::string hmac_sha256(std::string_view key, std::string_view text);

// Returns a random token of 128 bits.
std::string make_token();

// Compares in a time that depends on the sizes of the texts, but not on where or whether they differ.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace dpo
