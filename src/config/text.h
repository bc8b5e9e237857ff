#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dpo::config {

// The first byte that a configuration may not hold (invalid UTF-8, control characters but tab and line ends),
// or npos.
std::size_t first_bad_byte(std::string_view text);

// The text for a message: on one line, shortened, with what cannot be printed as \xNN.
std::string shown(std::string_view text);

// The text in lines of readable length: the first after `first`, the others after `rest`.
std::string wrapped(std::string_view text, const std::string& first, const std::string& rest);

}  // namespace dpo::config
