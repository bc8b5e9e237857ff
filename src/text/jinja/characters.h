// Characters and texts as in Python's str. Texts are valid UTF-8; positions and lengths count code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::text::jinja {

bool is_space(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_printable(char32_t code);
bool is_alnum(char32_t code);

// Use the full mappings of Unicode, where one character can become several.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);  // changes each word
std::string capitalize(std::string_view text);

std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);
bool is_ascii(std::string_view text);

// Removes the characters in `characters` (whitespace if nullptr) from the ends.
enum class Ends { kLeft, kRight, kBoth };
std::string_view strip(std::string_view text, Ends ends, const std::string_view* characters = nullptr);

// Split at whitespace, or at a separator that is not empty, at most `limit` times if it is not negative.
std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit = -1);
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t limit = -1);
std::vector<std::string_view> split_space_from_right(std::string_view text, std::int64_t limit);
std::vector<std::string_view> split_from_right(std::string_view text, std::string_view separator,
                                               std::int64_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

std::string replace_all(std::string_view text, std::string_view old_part, std::string_view new_part,
                        std::int64_t limit = -1);

}  // namespace dpo::text::jinja
