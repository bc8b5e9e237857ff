#include "ops/tree_tiles.h"

#include <algorithm>

#include "ops/cuda/trees.h"

namespace dpo::ops {
namespace {

constexpr std::int32_t kTile = cuda::kTreeTile;

// The sequence of a number in a tree, from `start` to `end`.
struct Sequence {
  std::int32_t start = 0, end = 0;
};

void add_tiles(std::vector<std::int32_t>& tiles, const cuda::TreeTile& tree,
               const std::vector<Sequence>& sequence_of) {
  const std::int32_t prompt_tiles = (tree.prompt_tokens + kTile - 1) / kTile;
  for (std::int32_t number = 0; number * kTile < tree.tokens; ++number) {
    const std::int32_t first = number * kTile, last = std::min(first + kTile, tree.tokens) - 1;
    const std::int32_t shared_end = std::min(prompt_tiles, number);
    const std::int32_t own_begin =
        std::max(shared_end, sequence_of[static_cast<std::size_t>(first)].start / kTile);
    const std::int32_t seen_until =
        first < tree.prompt_tokens ? tree.tokens : sequence_of[static_cast<std::size_t>(last)].end;
    for (const std::int32_t value : {tree.prompt, tree.prompt_tokens, tree.responses, tree.tokens, number,
                                     shared_end, own_begin, (seen_until - 1) / kTile})
      tiles.push_back(value);
  }
}

}  // namespace

TreeTiles make_tree_tiles(const std::vector<std::int32_t>& sequences,
                          const std::vector<std::int32_t>& branches,
                          const std::vector<std::int32_t>& prompts) {
  TreeTiles result;
  result.starts.resize(static_cast<std::size_t>(sequences.back()));
  std::size_t response = prompts.size() - 1;  // in `sequences`
  for (std::size_t t = 0; t + 1 < prompts.size(); ++t) {
    const cuda::TreeTile tree{.prompt = prompts[t],
                              .prompt_tokens = prompts[t + 1] - prompts[t],
                              .responses = prompts.back() + branches[t],
                              .tokens = prompts[t + 1] - prompts[t] + branches[t + 1] - branches[t]};
    std::vector<Sequence> sequence_of(static_cast<std::size_t>(tree.prompt_tokens), {0, tree.prompt_tokens});
    for (; response + 1 < sequences.size() && sequences[response] < prompts.back() + branches[t + 1];
         ++response) {
      const auto start = static_cast<std::int32_t>(sequence_of.size());
      const std::int32_t length = sequences[response + 1] - sequences[response];
      sequence_of.insert(sequence_of.end(), static_cast<std::size_t>(length), {start, start + length});
      std::fill_n(result.starts.begin() + sequences[response], length, start);
    }
    add_tiles(result.tiles, tree, sequence_of);
  }
  return result;
}

}  // namespace dpo::ops
