#include "text/pre_tokenizer.h"

#include <utility>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/unicode.h"

namespace dpo::text {
namespace {

struct Span {
  std::size_t start;
  std::size_t end;
  bool matched;
};

// Returns the matches and the text between them, in order, without gaps.
template <typename FindMatches>
std::vector<Span> spans_of(std::string_view text, const FindMatches& find_matches) {
  std::vector<Span> spans;
  std::size_t done = 0;
  find_matches([&](std::size_t start, std::size_t end) {
    if (done != start) spans.push_back({done, start, false});
    spans.push_back({start, end, true});
    done = end;
  });
  if (done != text.size()) spans.push_back({done, text.size(), false});
  return spans;
}

// Joins neighbours: spans[i] extends the last group if `joins(i)`, otherwise it starts a new one.
template <typename Joins>
std::vector<Span> grouped(const std::vector<Span>& spans, const Joins& joins) {
  std::vector<Span> groups;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0 && joins(i))
      groups.back().end = spans[i].end;
    else
      groups.push_back(spans[i]);
  }
  return groups;
}

std::vector<Span> with_behavior(const std::vector<Span>& spans, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::Isolated: break;
    case SplitBehavior::Removed: {
      std::vector<Span> kept;
      for (const Span& span : spans)
        if (!span.matched) kept.push_back(span);
      return kept;
    }
    case SplitBehavior::Contiguous:
      return grouped(spans, [&](std::size_t i) { return spans[i].matched == spans[i - 1].matched; });
    case SplitBehavior::MergedWithPrevious:
      return grouped(spans, [&](std::size_t i) { return spans[i].matched && !spans[i - 1].matched; });
    case SplitBehavior::MergedWithNext:
      return grouped(spans, [&](std::size_t i) { return spans[i - 1].matched && !spans[i].matched; });
  }
  return spans;
}

void put(const Piece& piece, const std::vector<Span>& spans, std::vector<Piece>& out) {
  for (const Span& span : spans)
    if (span.end > span.start)
      out.push_back({piece.text.substr(span.start, span.end - span.start), piece.first && span.start == 0});
}

class WordPreTokenizer : public PreTokenizerStep {
 public:
  explicit WordPreTokenizer(WordPattern pattern) : pattern_(pattern) {}
  void apply(const Piece& piece, std::vector<Piece>& out, Arena&) const override {
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t end = word_end(pattern_, piece.text, at);
      out.push_back({piece.text.substr(at, end - at), piece.first && at == 0});
      at = end;
    }
  }

 private:
  WordPattern pattern_;
};

class SplitPreTokenizer : public PreTokenizerStep {
 public:
  SplitPreTokenizer(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(const Piece& piece, std::vector<Piece>& out, Arena&) const override {
    std::vector<Span> spans =
        spans_of(piece.text, [&](const auto& found) { pattern_.for_each_match(piece.text, found); });
    for (Span& span : spans) span.matched = span.matched != invert_;
    put(piece, with_behavior(spans, behavior_), out);
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ClassSplitPreTokenizer : public PreTokenizerStep {
 public:
  ClassSplitPreTokenizer(std::uint8_t char_class, SplitBehavior behavior)
      : class_(char_class), behavior_(behavior) {}

  void apply(const Piece& piece, std::vector<Piece>& out, Arena&) const override {
    const auto find_matches = [&](const auto& found) {
      for (std::size_t at = 0; at < piece.text.size();) {
        const CodePoint point = code_point_at(piece.text, at);
        if ((char_classes()[point.code] & class_) != 0) found(at, at + point.length);
        at += point.length;
      }
    };
    put(piece, with_behavior(spans_of(piece.text, find_matches), behavior_), out);
  }

 private:
  std::uint8_t class_;
  SplitBehavior behavior_;
};

class PrefixSpacePreTokenizer : public PreTokenizerStep {
 public:
  void apply(const Piece& piece, std::vector<Piece>& out, Arena& arena) const override {
    if (piece.text.starts_with(' '))
      out.push_back(piece);
    else
      out.push_back({arena.emplace_back(" " + std::string(piece.text)), piece.first});
  }
};

class ByteLevelPreTokenizer : public PreTokenizerStep {
 public:
  void apply(const Piece& piece, std::vector<Piece>& out, Arena& arena) const override {
    out.push_back({arena.emplace_back(to_byte_level(piece.text)), piece.first});
  }
};

class MetaspacePreTokenizer : public PreTokenizerStep {
 public:
  MetaspacePreTokenizer(std::string replacement, PrependScheme scheme, bool split)
      : space_{" ", std::nullopt},
        replacement_{std::move(replacement), std::nullopt},
        scheme_(scheme),
        split_(split) {}

  void apply(const Piece& piece, std::vector<Piece>& out, Arena& arena) const override {
    std::string& text =
        arena.emplace_back(replace_matches(space_, replacement_.literal, piece.text, piece.text.size()));
    const bool prepends =
        scheme_ == PrependScheme::Always || (scheme_ == PrependScheme::First && piece.first);
    if (prepends && !text.starts_with(replacement_.literal)) text.insert(0, replacement_.literal);
    const Piece made{text, piece.first};
    if (!split_) return out.push_back(made);
    const auto spans = spans_of(text, [&](const auto& found) { replacement_.for_each_match(text, found); });
    put(made, with_behavior(spans, SplitBehavior::MergedWithNext), out);
  }

 private:
  TextPattern space_;
  TextPattern replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

std::unique_ptr<const PreTokenizerStep> word_step(WordPattern pattern) {
  return std::make_unique<WordPreTokenizer>(pattern);
}

std::unique_ptr<const PreTokenizerStep> split_step(TextPattern pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert);
}

std::unique_ptr<const PreTokenizerStep> class_split_step(std::uint8_t char_class, SplitBehavior behavior) {
  return std::make_unique<ClassSplitPreTokenizer>(char_class, behavior);
}

std::unique_ptr<const PreTokenizerStep> prefix_space_step() {
  return std::make_unique<PrefixSpacePreTokenizer>();
}

std::unique_ptr<const PreTokenizerStep> byte_level_step() {
  return std::make_unique<ByteLevelPreTokenizer>();
}

bool is_byte_level(const PreTokenizerStep& step) {
  return dynamic_cast<const ByteLevelPreTokenizer*>(&step) != nullptr;
}

std::unique_ptr<const PreTokenizerStep> metaspace_step(std::string replacement, PrependScheme scheme,
                                                       bool split) {
  return std::make_unique<MetaspacePreTokenizer>(std::move(replacement), scheme, split);
}

void PreTokenizer::apply(std::vector<Piece>& pieces, std::vector<Piece>& other, Arena& arena) const {
  for (const auto& step : steps_) {
    other.clear();
    for (const Piece& piece : pieces) step->apply(piece, other, arena);
    pieces.swap(other);
  }
}

}  // namespace dpo::text
