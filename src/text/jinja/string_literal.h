#pragma once

#include <string>
#include <string_view>

namespace dpo::text::jinja {

// The value of a string literal, given what is between its quotes. `error` says what is wrong, or stays
// empty.
std::string decode_string_literal(std::string_view text, std::string& error);

}  // namespace dpo::text::jinja
