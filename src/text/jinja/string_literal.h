#pragma once

#include <string>
#include <string_view>

namespace dpo::text::jinja {

// Decodes the text between the quotes of a string literal. Sets `error` to a message if it is not valid.
std::string decode_string_literal(std::string_view text, std::string& error);

}  // namespace dpo::text::jinja
