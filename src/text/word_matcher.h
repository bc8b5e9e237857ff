// Hand-written matchers for the patterns that most tokenizers use. A regular-expression engine would take
// more time than everything else together. Tests compare them with the engine.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace dpo::text {

enum class WordPattern {
  Gpt2,    // the pattern of the ByteLevel pre-tokenizer
  Cl100k,  // Llama 3 and its relatives: digits in groups of up to three
  Qwen2,   // Cl100k with single digits
};

std::string_view pattern_text(WordPattern pattern);
std::optional<WordPattern> known_pattern(std::string_view text);

// Returns where the word that starts at `at` ends. There are no gaps: a word starts where the previous one
// ended.
std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t at);

}  // namespace dpo::text
