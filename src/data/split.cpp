#include "data/split.h"

#include <algorithm>
#include <numeric>

#include "data/trees.h"

namespace dpo::data {
namespace {

// What is placed as a whole: a tree, or a piece of one.
struct Piece {
  std::vector<std::int64_t> examples;
  std::int64_t tokens = 0;
};

std::int64_t tokens_of(std::span<const Example> batch, std::span<const std::int64_t> examples) {
  return grow_trees(batch, examples).front().tokens();
}

// Cuts a tree that is too large between its examples, each piece as large as the budget allows.
std::vector<Piece> cut(std::span<const Example> batch, const Tree& tree, std::int64_t budget) {
  std::vector<Piece> pieces;
  for (const std::int64_t example : tree.examples) {
    if (!pieces.empty()) {
      std::vector<std::int64_t> longer = pieces.back().examples;
      longer.push_back(example);
      const std::int64_t tokens = tokens_of(batch, longer);
      if (tokens <= budget) {
        pieces.back() = {std::move(longer), tokens};
        continue;
      }
    }
    pieces.push_back({{example}, tokens_of(batch, {&example, 1})});
  }
  return pieces;
}

std::vector<Piece> pieces_of(std::span<const Example> batch, std::int64_t budget, Division& division) {
  std::vector<std::int64_t> all(batch.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<Piece> pieces;
  for (Tree& tree : grow_trees(batch, all)) {
    if (budget == 0 || tree.tokens() <= budget) {
      const std::int64_t tokens = tree.tokens();
      pieces.push_back({std::move(tree.examples), tokens});
      continue;
    }
    std::vector<Piece> cut_tree = cut(batch, tree, budget);
    division.repeated_prompts += static_cast<std::int64_t>(cut_tree.size()) - 1;
    std::move(cut_tree.begin(), cut_tree.end(), std::back_inserter(pieces));
  }
  return pieces;
}

}  // namespace

Division divide(std::span<const Example> batch, std::int64_t parts, std::int64_t budget) {
  Division division;
  division.parts.resize(static_cast<std::size_t>(parts));
  std::vector<Piece> pieces = pieces_of(batch, budget, division);
  // The largest first, each to the part that has least: no two parts differ by more than one piece.
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.tokens > b.tokens; });
  std::vector<std::int64_t> load(division.parts.size());
  for (const Piece& piece : pieces) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += piece.tokens;
    auto& part = division.parts[static_cast<std::size_t>(least - load.begin())];
    part.insert(part.end(), piece.examples.begin(), piece.examples.end());
  }
  for (auto& part : division.parts) std::sort(part.begin(), part.end());
  return division;
}

}  // namespace dpo::data
