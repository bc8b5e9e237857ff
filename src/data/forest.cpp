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
      forest.compared.push_back(response == kElsewhere
                                    ? static_cast<std::int32_t>(forest.responses() + forest.elsewhere++)
                                    : forest.tree_responses[tree] + response);
    forest.examples.push_back(index);
    forest.example_starts.push_back(end_of(forest.compared));
  }
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

std::vector<Tree> grow_trees(std::span<const Example> batch, const Part& part) {
  std::vector<Tree> trees;
  std::unordered_map<std::string_view, std::size_t> tree_of_prompt;
  for (const std::int64_t index : part.examples) {
    const Example& example = batch[static_cast<std::size_t>(index)];
    const auto [entry, is_new] = tree_of_prompt.try_emplace(bytes_of(example.prompt), trees.size());
    if (is_new) trees.push_back({example.prompt, {}, {}, {}});
    Tree& tree = trees[entry->second];
    tree.examples.push_back(index);
    std::vector<std::int32_t>& compared = tree.compared.emplace_back();
    for (std::size_t i = 0; i < example.responses.size(); ++i)
      compared.push_back(std::ranges::binary_search(part.elsewhere, ExampleResponse{index, i})
                             ? kElsewhere
                             : response_of(tree, leaf_of(example, i)));
  }
  return trees;
}

std::vector<Tree> grow_trees(std::span<const Example> batch, std::span<const std::int64_t> indices) {
  return grow_trees(batch, Part{{indices.begin(), indices.end()}, {}});
}

std::vector<Tree> grow_trees(std::span<const Example> batch) { return grow_trees(batch, all_indices(batch)); }

Forest make_forest(std::span<const Example> batch, const Part& part) {
  const std::vector<Tree> trees = grow_trees(batch, part);
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
  add_examples(forest, trees, part.examples);
  return forest;
}

Forest make_forest(std::span<const Example> batch, std::span<const std::int64_t> indices) {
  return make_forest(batch, Part{{indices.begin(), indices.end()}, {}});
}

Forest make_forest(std::span<const Example> batch) { return make_forest(batch, all_indices(batch)); }

}  // namespace dpo::data
