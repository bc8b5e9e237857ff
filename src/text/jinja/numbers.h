#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dpo::text::jinja {

// Parse like Python's int(text, base) and float(text). Return nullopt where Python raises a ValueError. Throw
// Failure for an integer beyond 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace dpo::text::jinja
