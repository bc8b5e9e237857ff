// Creates batches for tests of packing: random trees that own their tokens.
#pragma once

#include <deque>
#include <random>

#include "data/example.h"

namespace dpo::data {

class RandomBatch {
 public:
  explicit RandomBatch(unsigned seed) : random_(seed) {}

  // Returns up to `count` examples over few prompts and few different tokens, so that equal prompts and
  // responses, empty prompts and responses of one token all occur.
  std::vector<Example> make(int count) {
    std::vector<std::span<const Token>> prompts;
    for (int i = 0; i < 1 + count / 2; ++i) prompts.push_back(text(0, 6));
    std::vector<Example> batch;
    for (int i = 0; i < count; ++i) {
      Example example;
      example.prompt = prompts[static_cast<std::size_t>(below(static_cast<int>(prompts.size())))];
      const int responses = 1 + below(4);
      for (int r = 0; r < responses; ++r) example.responses.push_back(text(1, 4));
      batch.push_back(example);
    }
    return batch;
  }

  std::span<const Token> text(int least, int most) {
    std::vector<Token>& tokens = texts_.emplace_back();
    const int length = least + below(most - least + 1);
    for (int i = 0; i < length; ++i) tokens.push_back(below(3));
    return tokens;
  }

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

 private:
  std::mt19937 random_;
  std::deque<std::vector<Token>> texts_;
};

}  // namespace dpo::data
