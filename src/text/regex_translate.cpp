#include <algorithm>
#include <cctype>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace dpo::text {
namespace {

std::string ranges_text(std::span<const Range> ranges) {
  std::string out;
  for (const Range& range : ranges)
    out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(range.first),
                       static_cast<unsigned>(range.last));
  return out;
}

std::string newer_members(std::string_view category) {
  for (const NewerCategory& newer : newer_categories())
    if (newer.name == category) return ranges_text(newer.ranges);
  return "";
}

bool is_category(std::string_view name) {
  constexpr std::string_view kKnown[] = {
      "C", "Cc", "Cf", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N", "Nd", "Nl", "No",
      "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"};
  return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

bool is_script(std::string_view name) {
  constexpr std::string_view kKnown[] = {
      "Arabic", "Armenian", "Bengali",  "Cyrillic", "Devanagari", "Georgian", "Greek", "Han",    "Hangul",
      "Hebrew", "Hiragana", "Katakana", "Khmer",    "Lao",        "Latin",    "Tamil", "Telugu", "Thai"};
  return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\')
        escape(false);
      else if (c == '[')
        bracket();
      else if (c == '(')
        group();
      else if (c == '}' && pattern_.substr(at_ + 1, 1) == "+")
        refuse("{n,m}+");  // possessive in PCRE2, repeated in Oniguruma
      else
        copy(1);
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw UserError(
        fmt::format("{}: the regular expression {} uses {}, which is not supported", where_, pattern_, what));
  }

  void copy(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += std::min(count, pattern_.size() - at_);
  }

  void group() {
    constexpr std::string_view kKnown[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    if (pattern_.substr(at_, 2) != "(?") return copy(1);
    for (const std::string_view known : kKnown)
      if (pattern_.substr(at_, known.size()) == known) return copy(known.size());
    refuse(fmt::format("the group {}", pattern_.substr(at_, 4)));
  }

  void bracket() {
    copy(pattern_.substr(at_, 2) == "[^" ? 2 : 1);
    if (pattern_.substr(at_, 1) == "]") refuse("] as the first member of a class");
    for (;;) {
      if (at_ >= pattern_.size()) refuse("a class that does not end");
      const char c = pattern_[at_];
      if (c == ']') return copy(1);
      if (c == '[') refuse("a class within a class");
      if (pattern_.substr(at_, 2) == "&&") refuse("&& in a class");
      if (c == '\\')
        escape(true);
      else
        copy(1);
    }
  }

  // Adds a set of characters as members of a class. Outside a class it gets its own brackets.
  void put_set(const std::string& members, bool negated, bool in_class) {
    if (in_class && negated) refuse("a negated set within a class");
    out_ += in_class ? members : fmt::format("[{}{}]", negated ? "^" : "", members);
  }

  void escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse("a \\ at the end");
    const char c = pattern_[at_ + 1];
    if (c == 'p' || c == 'P') return property(in_class);
    if (c == 'u') return code_point();
    if (c == 's' || c == 'S') {
      at_ += 2;
      // U+180E is a space and thus not in \S for PCRE2, but it is in \S for Oniguruma.
      if (c == 'S' && in_class)
        out_ += "\\S\\x{180e}";
      else
        put_set(ranges_text(space_ranges()), c == 'S', in_class);
    } else if (c == 'd' || c == 'D') {
      at_ += 2;
      put_set("\\p{Nd}" + newer_members("Nd"), c == 'D', in_class);
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 &&
               std::string_view("nrtfxAzZ").find(c) == std::string_view::npos) {
      refuse(fmt::format("\\{}", c));
    } else {
      copy(2);
    }
  }

  void property(bool in_class) {
    const std::size_t open = at_ + 2;
    const std::size_t close = pattern_.find('}', open);
    if (pattern_.substr(open, 1) != "{" || close == pattern_.npos) refuse("\\p without {name}");
    std::string_view name = pattern_.substr(open + 1, close - open - 1);
    bool negated = pattern_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (is_category(name))
      put_set(fmt::format("\\p{{{}}}", name) + newer_members(name), negated, in_class);
    else if (is_script(name))
      put_set(fmt::format("\\p{{sc:{}}}", name), negated, in_class);  // the script without its extensions
    else
      refuse(fmt::format("\\p{{{}}}", name));
    at_ = close + 1;
  }

  void code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      refuse("\\u without four digits");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ += 6;
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace dpo::text
