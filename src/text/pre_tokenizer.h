#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/word_matcher.h"

namespace dpo::text {

// A part of a text. `first` is true at the start of the whole text.
struct Piece {
  std::string_view text;
  bool first;
};

// Texts that steps create. Pieces point into them.
using Arena = std::deque<std::string>;

// Splits and rewrites pieces. It is immutable.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void apply(const Piece& piece, std::vector<Piece>& out, Arena& arena) const = 0;
};
using PreTokenizerSteps = std::vector<std::unique_ptr<const PreTokenizerStep>>;

// The treatment of the matches at which a text is split, as in the `tokenizers` library.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

enum class PrependScheme { First, Never, Always };

std::unique_ptr<const PreTokenizerStep> word_step(WordPattern pattern);
std::unique_ptr<const PreTokenizerStep> split_step(TextPattern pattern, SplitBehavior behavior, bool invert);
std::unique_ptr<const PreTokenizerStep> class_split_step(std::uint8_t char_class, SplitBehavior behavior);
std::unique_ptr<const PreTokenizerStep> prefix_space_step();
std::unique_ptr<const PreTokenizerStep> byte_level_step();
bool is_byte_level(const PreTokenizerStep& step);
std::unique_ptr<const PreTokenizerStep> metaspace_step(std::string replacement, PrependScheme scheme,
                                                       bool split);

class PreTokenizer {
 public:
  explicit PreTokenizer(PreTokenizerSteps steps = {}) : steps_(std::move(steps)) {}

  // Replaces `pieces` with their parts; `other` is scratch memory.
  void apply(std::vector<Piece>& pieces, std::vector<Piece>& other, Arena& arena) const;

 private:
  PreTokenizerSteps steps_;
};

}  // namespace dpo::text
