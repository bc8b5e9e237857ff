#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dpo::text::jinja {

// int(text, base) and float(text) of Python; nullopt where those raise a ValueError. An integer beyond 64
// bits is a Failure.
std::optional<std::int64_t> parse_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace dpo::text::jinja
