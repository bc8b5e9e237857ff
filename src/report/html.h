#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dpo::report {

// Escapes text for HTML, also for a quoted attribute. Control characters become a middle dot, CR LF becomes
// LF, and bytes that are not UTF-8 become the replacement character.
std::string escape(std::string_view text);

// Return the first or the last `most` characters of a text, with a note of how many are left out.
std::string beginning_of(const std::string& text, std::size_t most);
std::string end_of(const std::string& text, std::size_t most);

// Returns the last words of a text on one line: "… Could you send me two red cups? Assistant:".
std::string ending_on_a_line(const std::string& text, std::size_t most);

}  // namespace dpo::report
