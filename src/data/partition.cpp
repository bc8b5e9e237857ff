#include "data/partition.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

namespace dpo::data {
namespace {

using Indices = std::vector<std::int64_t>;

// Divides the examples of a tree without a prompt wherever they share no response.
std::vector<Indices> unconnected(const Tree& tree) {
  constexpr std::size_t kNoGroup = SIZE_MAX;
  std::vector<Indices> groups(tree.examples.size());
  std::vector<std::size_t> group_of(tree.responses.size(), kNoGroup);
  for (std::size_t e = 0; e < tree.examples.size(); ++e) {
    groups[e].push_back(tree.examples[e]);
    for (const std::int32_t response : tree.compared[e]) {
      const std::size_t earlier = std::exchange(group_of[static_cast<std::size_t>(response)], e);
      if (earlier == e || earlier == kNoGroup) continue;
      std::ranges::move(std::exchange(groups[earlier], {}), std::back_inserter(groups[e]));
      std::ranges::replace(group_of, earlier, e);
    }
  }
  std::erase_if(groups, [](const Indices& group) { return group.empty(); });
  return groups;
}

// Returns the trees that balance() divides.
std::vector<Tree> trees_of(std::span<const Example> batch) {
  std::vector<Tree> trees;
  for (Tree& tree : grow_trees(batch)) {
    if (!tree.prompt.empty()) {
      trees.push_back(std::move(tree));
      continue;
    }
    for (const Indices& group : unconnected(tree))
      trees.push_back(std::move(grow_trees(batch, group).front()));
  }
  return trees;
}

std::int64_t scored_tokens(const Leaf& leaf) {
  std::int64_t scored = std::ssize(leaf.tokens);
  for (const TokenRange& range : leaf.unscored) scored -= range.end - range.begin;
  return scored;
}

TreeCost cost_of(const Tree& tree, const UnitCosts& costs) {
  const std::int64_t prompt = std::ssize(tree.prompt);
  TreeCost cost{prompt_cost(costs, prompt)};
  for (const Leaf& leaf : tree.responses)
    cost.responses.push_back(response_cost(costs, prompt, std::ssize(leaf.tokens), scored_tokens(leaf)));
  return cost;
}

// Adds the examples of a tree to the parts that have their responses. Returns whether one is in several
// parts.
bool add_examples(const Tree& tree, const std::vector<std::int32_t>& part_of, std::vector<Part>& parts) {
  bool divided = false;
  for (std::size_t e = 0; e < tree.examples.size(); ++e) {
    const std::int64_t example = tree.examples[e];
    const std::vector<std::int32_t>& compared = tree.compared[e];
    const auto part = [&](std::size_t i) { return part_of[static_cast<std::size_t>(compared[i])]; };
    std::set<std::int32_t> used;
    for (std::size_t i = 0; i < compared.size(); ++i) used.insert(part(i));
    divided = divided || used.size() > 1;
    for (const std::int32_t here : used) {
      Part& added = parts[static_cast<std::size_t>(here)];
      added.examples.push_back(example);
      for (std::size_t i = 0; i < compared.size(); ++i)
        if (part(i) != here) added.elsewhere.push_back({example, i});
    }
  }
  return divided;
}

}  // namespace

Partition partition_batch(std::span<const Example> batch, const Division& division) {
  const std::vector<Tree> trees = trees_of(batch);
  std::vector<TreeCost> costs;
  for (const Tree& tree : trees) costs.push_back(cost_of(tree, division.costs));
  const Balance found = balance(costs, division.ranks, division.microbatches, division.prompts);
  Partition partition{
      .parts = std::vector<Part>(static_cast<std::size_t>(division.ranks * division.microbatches)),
      .has_divided = std::vector<bool>(static_cast<std::size_t>(division.microbatches)),
      .slowest_rank = found.slowest_rank};
  for (std::size_t t = 0; t < trees.size(); ++t) {
    const std::vector<std::int32_t>& part_of = found.part_of[t];
    const std::int64_t copies = std::ssize(std::set(part_of.begin(), part_of.end()));
    partition.repeated_tokens += (copies - 1) * std::ssize(trees[t].prompt);
    if (add_examples(trees[t], part_of, partition.parts))
      partition.has_divided[static_cast<std::size_t>(part_of.front() % division.microbatches)] = true;
  }
  for (Part& part : partition.parts) {
    std::ranges::sort(part.examples);
    std::ranges::sort(part.elsewhere);
  }
  return partition;
}

}  // namespace dpo::data
