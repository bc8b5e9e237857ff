// Matchers written by hand for the patterns that most tokenizers use: a regular-expression engine costs more
// than everything else together. Tests hold them equal to the engine.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace dpo::text {

enum class WordPattern {
  Gpt2,    // what the ByteLevel pre-tokenizer splits by
  Cl100k,  // Llama 3 and its relatives: digits in groups of up to three
  Qwen2,   // the same with single digits
};

std::string_view pattern_text(WordPattern pattern);
std::optional<WordPattern> known_pattern(std::string_view text);

// Where the word that starts at `at` ends. These patterns leave no gaps: a word starts where the last one
// ended.
std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t at);

}  // namespace dpo::text
