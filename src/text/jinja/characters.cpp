#include "text/jinja/characters.h"

#include <algorithm>
#include <cstdlib>

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/unicode_tables.h"

namespace dpo::text::jinja {
namespace {

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

template <std::size_t size>
bool is_in(const CodeRange (&ranges)[size], char32_t code) {
  const auto after = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                      [](char32_t c, const CodeRange& range) { return c < range.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

bool is_identifier_start(char32_t code) {
  return code == '_' || is_alpha(code) || category_of(code) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return is_identifier_start(code) || category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_PC || code == 0xB7;
}

const SpecialCase* special_case(char32_t code) {
  const auto at = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), code,
                                   [](const SpecialCase& special, char32_t c) { return special.code < c; });
  return at != std::end(kSpecialCases) && at->code == code ? at : nullptr;
}

char32_t simple(utf8proc_int32_t (*mapping)(utf8proc_int32_t), char32_t code) {
  return static_cast<char32_t>(mapping(static_cast<utf8proc_int32_t>(code)));
}

void add_upper(std::u32string& out, char32_t code) {
  if (const SpecialCase* special = code < 0x80 ? nullptr : special_case(code))
    out += special->upper;
  else
    out += simple(utf8proc_toupper, code);
}

void add_title(std::u32string& out, char32_t code) {
  if (const SpecialCase* special = code < 0x80 ? nullptr : special_case(code))
    out += special->title;
  else
    out += simple(utf8proc_totitle, code);
}

std::string map_ascii(std::string_view text, char first, char last, int offset) {
  std::string out(text);
  for (char& c : out)
    if (c >= first && c <= last) c = static_cast<char>(c + offset);
  return out;
}

bool is_case_ignorable(char32_t code) {
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default:
      return std::u32string_view(U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027").find(code) !=
             std::u32string_view::npos;
  }
}

// Returns whether a capital sigma is at the end of a word, where it has a different lower case.
bool is_final_sigma(std::u32string_view text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void add_lower(std::u32string& out, std::u32string_view text, std::size_t at) {
  const char32_t code = text[at];
  if (code == 0x130)
    out += U"i\u0307";
  else if (code == 0x3A3)
    out += is_final_sigma(text, at) ? U'\u03C2' : U'\u03C3';
  else
    out += simple(utf8proc_tolower, code);
}

}  // namespace

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_alpha(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t code) { return is_decimal(code) || is_in(kOtherDigits, code); }

bool is_numeric(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
         is_in(kNumericLetters, code);
}

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_lower(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_LL || is_in(kOtherLower, code); }
bool is_upper(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_LU || is_in(kOtherUpper, code); }
bool is_title(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_LT; }

bool is_identifier(std::string_view text) {
  const std::u32string codes = decode(text);
  return !codes.empty() && is_identifier_start(codes[0]) &&
         std::all_of(codes.begin(), codes.end(), is_identifier_part);
}

std::string to_upper(std::string_view text) {
  if (is_ascii(text)) return map_ascii(text, 'a', 'z', -0x20);
  std::u32string out;
  for (const char32_t code : decode(text)) add_upper(out, code);
  return encode(out);
}

std::string to_lower(std::string_view text) {
  if (is_ascii(text)) return map_ascii(text, 'A', 'Z', 0x20);
  const std::u32string codes = decode(text);
  std::u32string out;
  for (std::size_t i = 0; i < codes.size(); ++i) add_lower(out, codes, i);
  return encode(out);
}

std::string to_title(std::string_view text) {
  const std::u32string codes = decode(text);
  std::u32string out;
  bool in_word = false;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (in_word)
      add_lower(out, codes, i);
    else
      add_title(out, codes[i]);
    in_word = is_cased(codes[i]);
  }
  return encode(out);
}

std::string capitalize(std::string_view text) {
  const std::u32string codes = decode(text);
  std::u32string out;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (i == 0)
      add_title(out, codes[i]);
    else
      add_lower(out, codes, i);
  }
  return encode(out);
}

std::string swap_case(std::string_view text) {
  const std::u32string codes = decode(text);
  std::u32string out;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (is_upper(codes[i]))
      add_lower(out, codes, i);
    else if (is_lower(codes[i]))
      add_upper(out, codes[i]);
    else
      out += codes[i];
  }
  return encode(out);
}

std::string case_fold(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  std::string out(reinterpret_cast<const char*>(folded), size > 0 ? static_cast<std::size_t>(size) : 0);
  std::free(folded);
  return out;
}

std::u32string decode(std::string_view text) {
  spend(text.size() / 16);
  std::u32string codes;
  codes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    codes += point.code;
    at += point.length;
  }
  return codes;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t code : text) append_utf8(out, code);
  return out;
}

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

}  // namespace dpo::text::jinja
