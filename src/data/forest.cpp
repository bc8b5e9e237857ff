#include "data/forest.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace dpo::data {
namespace {

std::vector<std::int64_t> all_indices(std::span<const Example> batch) {
  std::vector<std::int64_t> all(batch.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string_view bytes_of(std::span<const Token> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

Leaf leaf_of(const Example& example, std::size_t i) {
  const std::span<const Token> response = example.responses[i];
  const bool whole = example.tail_weight == 1 || response.size() <= example.full_tokens;
  if (whole) return {response, response.size(), 1, example.unscored_of(i)};
  return {response, example.full_tokens, example.tail_weight, example.unscored_of(i)};
}

std::int32_t response_of(Tree& tree, const Leaf& leaf) {
  const auto found = std::find(tree.responses.begin(), tree.responses.end(), leaf);
  if (found != tree.responses.end()) return static_cast<std::int32_t>(found - tree.responses.begin());
  tree.responses.push_back(leaf);
  return static_cast<std::int32_t>(tree.responses.size() - 1);
}

void append(Forest& forest, std::span<const Token> tokens, std::int32_t first_position) {
  forest.tokens.insert(forest.tokens.end(), tokens.begin(), tokens.end());
  forest.positions.resize(forest.tokens.size());
  std::iota(forest.positions.end() - std::ssize(tokens), forest.positions.end(), first_position);
}

std::int32_t end_of(const auto& values) { return static_cast<std::int32_t>(values.size()); }

void add_response(Forest& forest, std::size_t tree, const Leaf& leaf) {
  const std::span<const Token> response = leaf.tokens;
  const std::int32_t prompt_end = forest.prompt_starts[tree + 1];
  const std::int32_t prompt_length = prompt_end - forest.prompt_starts[tree];
  const std::int32_t start = end_of(forest.tokens);
  auto unscored = leaf.unscored.begin();
  for (std::size_t i = prompt_length > 0 ? 0 : 1; i < response.size(); ++i) {
    while (unscored != leaf.unscored.end() && unscored->end <= i) ++unscored;
    if (unscored != leaf.unscored.end() && unscored->begin <= i) continue;
    forest.rows.push_back(i == 0 ? prompt_end - 1 : start + static_cast<std::int32_t>(i) - 1);
    forest.targets.push_back(response[i]);
    forest.row_weights.push_back(i < leaf.full_tokens ? 1 : leaf.tail_weight);
  }
  append(forest, response, prompt_length);
  forest.response_starts.push_back(end_of(forest.tokens));
  forest.row_starts.push_back(end_of(forest.rows));
}

void add_examples(Forest& forest, std::span<const Tree> trees, std::span<const std::int64_t> indices) {
  struct TreeExample {
    std::size_t tree, example;
  };
  std::unordered_map<std::int64_t, TreeExample> found;
  for (std::size_t t = 0; t < trees.size(); ++t)
    for (std::size_t e = 0; e < trees[t].examples.size(); ++e) found[trees[t].examples[e]] = {t, e};
  forest.example_starts.push_back(0);
  for (const std::int64_t index : indices) {
    const auto [tree, example] = found.at(index);
    for (const std::int32_t response : trees[tree].compared[example])
      forest.compared.push_back(forest.tree_responses[tree] + response);
    forest.examples.push_back(index);
    forest.example_starts.push_back(end_of(forest.compared));
  }
}

// A tree, or some examples of one, that goes to one part as a whole.
struct TreePiece {
  std::vector<std::int64_t> examples;
  std::int64_t tokens = 0;
};

std::int64_t tokens_of(std::span<const Example> batch, std::span<const std::int64_t> examples) {
  return grow_trees(batch, examples).front().tokens();
}

// Cuts a tree between its examples. A piece grows while it stays within the budget; one example may exceed
// it.
std::vector<TreePiece> cut(std::span<const Example> batch, const Tree& tree, std::int64_t budget) {
  std::vector<TreePiece> pieces;
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

// Divides the examples of a tree without a prompt wherever they share no response.
std::vector<TreePiece> divide(const Tree& tree) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<TreePiece> pieces(tree.examples.size());
  std::vector<std::size_t> piece_of(tree.responses.size(), kNone);
  for (std::size_t e = 0; e < tree.examples.size(); ++e) {
    pieces[e].examples.push_back(tree.examples[e]);
    for (const std::int32_t response : tree.compared[e]) {
      const auto r = static_cast<std::size_t>(response);
      const std::size_t earlier = std::exchange(piece_of[r], e);
      if (earlier == e) continue;
      if (earlier == kNone) {
        pieces[e].tokens += std::ssize(tree.responses[r].tokens);
        continue;
      }
      TreePiece joined = std::exchange(pieces[earlier], {});
      std::ranges::move(joined.examples, std::back_inserter(pieces[e].examples));
      pieces[e].tokens += joined.tokens;
      std::ranges::replace(piece_of, earlier, e);
    }
  }
  std::erase_if(pieces, [](const TreePiece& piece) { return piece.examples.empty(); });
  return pieces;
}

std::vector<TreePiece> pieces_of(std::span<const Example> batch, std::int64_t budget, Partition& partition) {
  std::vector<TreePiece> pieces;
  for (Tree& tree : grow_trees(batch)) {
    if (tree.prompt.empty()) {
      std::ranges::move(divide(tree), std::back_inserter(pieces));
      continue;
    }
    if (budget == 0 || tree.tokens() <= budget) {
      const std::int64_t tokens = tree.tokens();
      pieces.push_back({std::move(tree.examples), tokens});
      continue;
    }
    std::vector<TreePiece> cut_tree = cut(batch, tree, budget);
    partition.repeated_prompts += static_cast<std::int64_t>(cut_tree.size()) - 1;
    std::move(cut_tree.begin(), cut_tree.end(), std::back_inserter(pieces));
  }
  return pieces;
}

}  // namespace

bool Leaf::operator==(const Leaf& other) const {
  return full_tokens == other.full_tokens && tail_weight == other.tail_weight && unscored == other.unscored &&
         std::ranges::equal(tokens, other.tokens);
}

std::int64_t Tree::tokens() const {
  std::size_t sum = prompt.size();
  for (const Leaf& response : responses) sum += response.tokens.size();
  return static_cast<std::int64_t>(sum);
}

std::vector<Tree> grow_trees(std::span<const Example> batch, std::span<const std::int64_t> indices) {
  std::vector<Tree> trees;
  std::unordered_map<std::string_view, std::size_t> tree_of_prompt;
  for (const std::int64_t index : indices) {
    const Example& example = batch[static_cast<std::size_t>(index)];
    const auto [entry, is_new] = tree_of_prompt.try_emplace(bytes_of(example.prompt), trees.size());
    if (is_new) trees.push_back({example.prompt, {}, {}, {}});
    Tree& tree = trees[entry->second];
    tree.examples.push_back(index);
    std::vector<std::int32_t>& compared = tree.compared.emplace_back();
    for (std::size_t i = 0; i < example.responses.size(); ++i)
      compared.push_back(response_of(tree, leaf_of(example, i)));
  }
  return trees;
}

std::vector<Tree> grow_trees(std::span<const Example> batch) { return grow_trees(batch, all_indices(batch)); }

Forest make_forest(std::span<const Example> batch, std::span<const std::int64_t> indices) {
  const std::vector<Tree> trees = grow_trees(batch, indices);
  Forest forest;
  forest.prompt_starts.push_back(0);
  for (const Tree& tree : trees) {
    append(forest, tree.prompt, 0);
    forest.prompt_starts.push_back(end_of(forest.tokens));
  }
  forest.response_starts.push_back(end_of(forest.tokens));
  forest.row_starts.push_back(0);
  forest.tree_responses.push_back(0);
  for (std::size_t t = 0; t < trees.size(); ++t) {
    for (const Leaf& response : trees[t].responses) add_response(forest, t, response);
    forest.tree_responses.push_back(static_cast<std::int32_t>(forest.responses()));
  }
  if (std::ranges::all_of(forest.row_weights, [](float weight) { return weight == 1; }))
    forest.row_weights.clear();
  add_examples(forest, trees, indices);
  return forest;
}

Forest make_forest(std::span<const Example> batch) { return make_forest(batch, all_indices(batch)); }

Partition partition_batch(std::span<const Example> batch, std::int64_t parts, std::int64_t budget) {
  Partition partition;
  partition.parts.resize(static_cast<std::size_t>(parts));
  std::vector<TreePiece> pieces = pieces_of(batch, budget, partition);
  // Takes the largest pieces first and adds each to the part with the fewest tokens, so that no two parts
  // differ by more than one piece.
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const TreePiece& a, const TreePiece& b) { return a.tokens > b.tokens; });
  std::vector<std::int64_t> load(partition.parts.size());
  for (const TreePiece& piece : pieces) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += piece.tokens;
    auto& part = partition.parts[static_cast<std::size_t>(least - load.begin())];
    part.insert(part.end(), piece.examples.begin(), piece.examples.end());
  }
  for (auto& part : partition.parts) std::sort(part.begin(), part.end());
  return partition;
}

}  // namespace dpo::data
