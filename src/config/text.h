#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dpo::config {

// Returns the position of the first byte that a configuration must not contain (invalid UTF-8, or control
// characters except tab and line ends), or npos.
std::size_t first_bad_byte(std::string_view text);

// Formats the text for a message: on one line, shortened, with unprintable bytes as \xNN.
std::string shown(std::string_view text);

// Breaks the text into lines of readable length. The first begins with `first`, the others with `rest`.
std::string wrapped(std::string_view text, const std::string& first, const std::string& rest);

}  // namespace dpo::config
