#include "data/forest.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "data/trees.h"

namespace dpo::data {
namespace {

void append(Forest& forest, std::span<const Token> tokens, std::int32_t first_position) {
  forest.tokens.insert(forest.tokens.end(), tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    forest.positions.push_back(first_position + static_cast<std::int32_t>(i));
}

std::int32_t end_of(const auto& values) { return static_cast<std::int32_t>(values.size()); }

void add_response(Forest& forest, std::size_t tree, const Leaf& leaf) {
  const std::span<const Token> response = leaf.tokens;
  const std::int32_t prompt_end = forest.prompt_starts[tree + 1];
  const std::int32_t prompt_length = prompt_end - forest.prompt_starts[tree];
  const std::int32_t start = end_of(forest.tokens);
  for (std::size_t i = prompt_length > 0 ? 0 : 1; i < response.size(); ++i) {
    forest.rows.push_back(i == 0 ? prompt_end - 1 : start + static_cast<std::int32_t>(i) - 1);
    forest.targets.push_back(response[i]);
    forest.row_weights.push_back(i < leaf.full ? 1 : leaf.tail_weight);
  }
  append(forest, response, prompt_length);
  forest.response_starts.push_back(end_of(forest.tokens));
  forest.row_starts.push_back(end_of(forest.rows));
}

void add_examples(Forest& forest, std::span<const Tree> trees, std::span<const std::int64_t> chosen) {
  struct Place {
    std::int64_t tree = 0, example = 0;
  };
  std::unordered_map<std::int64_t, Place> places;
  for (std::size_t t = 0; t < trees.size(); ++t)
    for (std::size_t e = 0; e < trees[t].examples.size(); ++e)
      places[trees[t].examples[e]] = {static_cast<std::int64_t>(t), static_cast<std::int64_t>(e)};
  forest.example_starts.push_back(0);
  for (const std::int64_t number : chosen) {
    const Place place = places.at(number);
    const std::int32_t first = forest.tree_responses[static_cast<std::size_t>(place.tree)];
    const Tree& tree = trees[static_cast<std::size_t>(place.tree)];
    for (const std::int32_t response : tree.compared[static_cast<std::size_t>(place.example)])
      forest.compared.push_back(first + response);
    forest.examples.push_back(number);
    forest.example_starts.push_back(end_of(forest.compared));
  }
}

}  // namespace

Forest make_forest(std::span<const Example> batch, std::span<const std::int64_t> chosen) {
  const std::vector<Tree> trees = grow_trees(batch, chosen);
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
  add_examples(forest, trees, chosen);
  return forest;
}

Forest make_forest(std::span<const Example> batch) {
  std::vector<std::int64_t> all(batch.size());
  std::iota(all.begin(), all.end(), 0);
  return make_forest(batch, all);
}

}  // namespace dpo::data
