#include "text/jinja/characters.h"

#include <algorithm>

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"

namespace dpo::text::jinja {
namespace {

struct CodeRange {
  char32_t first, last;
};

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

template <std::size_t size>
bool is_in(const CodeRange (&ranges)[size], char32_t code) {
  const auto after = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                      [](char32_t c, const CodeRange& range) { return c < range.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

// Letters with a case of categories other than Lu, Ll and Lt.
constexpr CodeRange kOtherCased[] = {
    {0xaa, 0xaa},       {0xba, 0xba},       {0x2b0, 0x2b8},     {0x2c0, 0x2c1},     {0x2e0, 0x2e4},
    {0x345, 0x345},     {0x37a, 0x37a},     {0x1d2c, 0x1d6a},   {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},
    {0x2071, 0x2071},   {0x207f, 0x207f},   {0x2090, 0x209c},   {0x2160, 0x217f},   {0x24b6, 0x24e9},
    {0x2c7c, 0x2c7d},   {0xa69c, 0xa69d},   {0xa770, 0xa770},   {0xa7f8, 0xa7f9},   {0xab5c, 0xab5f},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x1f130, 0x1f149},
    {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
};

// Characters for which isdigit() is true, of categories other than Nd.
constexpr CodeRange kOtherDigits[] = {
    {0xb2, 0xb3},     {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247c},   {0x2488, 0x2490},
    {0x24ea, 0x24ea}, {0x24f5, 0x24fd},   {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},
    {0x278a, 0x2792}, {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a},
};

bool is_cased(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || is_in(kOtherCased, code);
}

char32_t simple(utf8proc_int32_t (*mapping)(utf8proc_int32_t), char32_t code) {
  return static_cast<char32_t>(mapping(static_cast<utf8proc_int32_t>(code)));
}

// Returns the lower case of a character whose upper case has several characters, or an empty text for others.
std::u32string expanded(char32_t code) {
  constexpr utf8proc_ssize_t kLongest = 4;
  if (code < 0x80 || category_of(code) == UTF8PROC_CATEGORY_LU) return {};
  utf8proc_int32_t folded[kLongest];
  int previous = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), folded, kLongest,
                                                        UTF8PROC_CASEFOLD, &previous);
  return size > 1 && size <= kLongest ? std::u32string(folded, folded + size) : std::u32string();
}

void add_upper(std::u32string& out, char32_t code) {
  std::u32string parts = expanded(code);
  if (parts.empty()) parts = code;
  for (const char32_t part : parts) out += simple(utf8proc_toupper, part);
}

void add_title(std::u32string& out, char32_t code) {
  constexpr char32_t kApostropheN = 0x149, kIota = 0x3B9, kIotaBelow = 0x345;
  if (code == kApostropheN) return add_upper(out, code);
  const std::u32string parts = expanded(code);
  const char32_t title = simple(utf8proc_totitle, code);
  if (parts.empty() || category_of(title) == UTF8PROC_CATEGORY_LT) {
    out += title;
    return;
  }
  out += simple(utf8proc_totitle, parts[0]);
  for (const char32_t part : parts.substr(1)) out += part == kIota ? kIotaBelow : part;
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
      return std::u32string_view(
                 U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A")
                 .find(code) != std::u32string_view::npos;
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

bool is_alnum(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return is_alpha(code) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
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
