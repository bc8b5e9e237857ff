#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dpo::report {

// Text as HTML, also within a quoted attribute: special characters are escaped, control characters become a
// middle dot, CR LF becomes LF, and bytes that are not UTF-8 the replacement character.
std::string escape(std::string_view text);

// The first or the last `most` characters of a text, and how many more there are.
std::string beginning_of(const std::string& text, std::size_t most);
std::string end_of(const std::string& text, std::size_t most);

// The last words of a text on one line: "… Could you send me two red cups? Assistant:"
std::string ending_on_a_line(const std::string& text, std::size_t most);

}  // namespace dpo::report
