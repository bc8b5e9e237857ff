#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dpo::report {

// Text as HTML, also within a quoted attribute: special characters are escaped, control characters become a
// middle dot, and bytes that are not UTF-8 the replacement character.
std::string escape(std::string_view text);

// The first or the last `most` characters of a text, and how many more there are.
std::string beginning_of(const std::string& text, std::size_t most);
std::string end_of(const std::string& text, std::size_t most);

}  // namespace dpo::report
