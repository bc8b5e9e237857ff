#include "data/trees.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace dpo::data {
namespace {

std::string_view bytes_of(std::span<const Token> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

Leaf leaf_of(const Example& example, std::span<const Token> response) {
  const bool whole = example.tail_weight == 1 || response.size() <= example.full_tokens;
  return whole ? Leaf{response, response.size(), 1}
               : Leaf{response, example.full_tokens, example.tail_weight};
}

std::int32_t response_of(Tree& tree, const Leaf& leaf) {
  const auto same = [&](const Leaf& other) {
    return other.full == leaf.full && other.tail_weight == leaf.tail_weight &&
           bytes_of(other.tokens) == bytes_of(leaf.tokens);
  };
  const auto found = std::find_if(tree.responses.begin(), tree.responses.end(), same);
  if (found != tree.responses.end()) return static_cast<std::int32_t>(found - tree.responses.begin());
  tree.responses.push_back(leaf);
  return static_cast<std::int32_t>(tree.responses.size() - 1);
}

}  // namespace

std::int64_t Tree::tokens() const {
  std::size_t sum = prompt.size();
  for (const Leaf& response : responses) sum += response.tokens.size();
  return static_cast<std::int64_t>(sum);
}

std::vector<Tree> grow_trees(std::span<const Example> batch, std::span<const std::int64_t> chosen) {
  std::vector<Tree> trees;
  std::unordered_map<std::string_view, std::size_t> tree_of_prompt;
  for (const std::int64_t number : chosen) {
    const Example& example = batch[static_cast<std::size_t>(number)];
    const auto [entry, is_new] = tree_of_prompt.try_emplace(bytes_of(example.prompt), trees.size());
    if (is_new) trees.push_back({example.prompt, {}, {}, {}});
    Tree& tree = trees[entry->second];
    tree.examples.push_back(number);
    std::vector<std::int32_t>& compared = tree.compared.emplace_back();
    for (const std::span<const Token> response : example.responses)
      compared.push_back(response_of(tree, leaf_of(example, response)));
  }
  return trees;
}

}  // namespace dpo::data
