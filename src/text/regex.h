#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace dpo::text {

// A regular expression of a tokenizer.json: Oniguruma's (Ruby's) syntax and Unicode 16, run by PCRE2.
class Regex {
 public:
  // Throws a UserError that starts with `where` for a construct that the two engines treat differently.
  Regex(const std::string& pattern, const std::string& where);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Calls `found(start, end)` for each match, from left to right. The text must be valid UTF-8.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t, std::size_t)>& found) const;

 private:
  struct Code;
  std::unique_ptr<const Code> code_;
};

// Translates a pattern so that PCRE2 matches what Oniguruma would.
std::string translate_pattern(std::string_view pattern, const std::string& where);

}  // namespace dpo::text
