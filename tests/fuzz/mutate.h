// Generates inputs: valid inputs get small changes that use the format's keywords.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <string>

namespace fuzz {

class Mutator {
 public:
  Mutator(std::uint64_t seed, std::uint64_t number) {
    std::seed_seq both{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                       static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
    random_.seed(both);
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

  template <class List>
  const auto& pick(const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

  void mutate(std::string& text, std::span<const std::string> tokens) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 12) + 1);
    switch (below(8)) {
      case 0: text.insert(at, pick(tokens)); break;
      case 1: text.replace(at, length, pick(tokens)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(below(text.size() + 1), std::string(text, at, length)); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 5: text.insert(at, std::string(1, static_cast<char>(32 + below(95)))); break;
      case 6: text.insert(at, repeated(pick(tokens))); break;
      case 7:
        if (below(4) == 0) text.resize(at);
        break;
    }
  }

  // Replaces a number of the text by a small one, so that consistent values no longer are.
  void change_number(std::string& text) {
    constexpr const char* kDigits = "0123456789";
    const std::size_t begin = text.find_first_of(kDigits, below(text.size() + 1));
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, std::to_string(below(40)));
  }

  void mutate(std::string& text, std::span<const std::string> tokens, std::size_t most_rounds) {
    for (std::size_t rounds = below(most_rounds); rounds > 0; --rounds) mutate(text, tokens);
  }

 private:
  // Repeats a token, mostly a few times, sometimes to the depth at which nesting can be tried.
  std::string repeated(const std::string& token) {
    std::string out;
    for (std::size_t n = below(200) == 0 ? 2000 : below(80); n > 0; --n) out += token;
    return out;
  }

  std::mt19937_64 random_;
};

}  // namespace fuzz
