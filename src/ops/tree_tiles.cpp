#include "ops/tree_tiles.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "ops/cuda/trees.h"

namespace dpo::ops {
namespace {

constexpr std::int32_t kTile = cuda::kTreeTile;

// A sequence of a tree: numbers from `start` to `end`.
struct Sequence {
  std::int32_t start = 0, end = 0;
};

void add_tiles(std::vector<cuda::TreeTile>& tiles, const cuda::TreeTile& tree,
               const std::vector<Sequence>& sequence_of) {
  const std::int32_t prompt_tiles = (tree.prompt_tokens + kTile - 1) / kTile;
  for (std::int32_t number = 0; number * kTile < tree.tokens; ++number) {
    const std::int32_t first = number * kTile, last = std::min(first + kTile, tree.tokens) - 1;
    const std::int32_t shared_end = std::min(prompt_tiles, number);
    const std::int32_t own_begin =
        std::max(shared_end, sequence_of[static_cast<std::size_t>(first)].start / kTile);
    const std::int32_t seen_until =
        first < tree.prompt_tokens ? tree.tokens : sequence_of[static_cast<std::size_t>(last)].end;
    tiles.push_back(tree);
    tiles.back().number = number;
    tiles.back().shared_end = shared_end;
    tiles.back().own_begin = own_begin;
    tiles.back().last = (seen_until - 1) / kTile;
  }
}

// Returns the number of tiles that it needs as a tile of queries.
std::int32_t query_work(const cuda::TreeTile& tile) {
  return tile.shared_end + tile.number + 1 - tile.own_begin;
}
std::int32_t key_work(const cuda::TreeTile& tile) { return tile.last + 1 - tile.number; }

// Puts tiles with the most work first, so that no multiprocessor starts a long one while the others finish.
// Tiles whose work differs by less than a factor of two keep their order: neighbours read the same rows,
// which are in the cache if they are computed at the same time.
std::vector<std::int32_t> ordered(std::vector<cuda::TreeTile> tiles,
                                  std::int32_t (*work)(const cuda::TreeTile&)) {
  std::ranges::stable_sort(tiles, std::greater(), [work](const cuda::TreeTile& tile) {
    return std::bit_width(static_cast<std::uint32_t>(work(tile)));
  });
  std::vector<std::int32_t> values;
  values.reserve(tiles.size() * sizeof(cuda::TreeTile) / sizeof(std::int32_t));
  for (const cuda::TreeTile& tile : tiles)
    for (const std::int32_t value : {tile.prompt, tile.prompt_tokens, tile.responses, tile.tokens,
                                     tile.number, tile.shared_end, tile.own_begin, tile.last})
      values.push_back(value);
  return values;
}

}  // namespace

TreeTiles make_tree_tiles(const std::vector<std::int32_t>& sequences,
                          const std::vector<std::int32_t>& branches,
                          const std::vector<std::int32_t>& prompts) {
  TreeTiles result;
  std::vector<cuda::TreeTile> tiles;
  result.starts.resize(static_cast<std::size_t>(sequences.back()));
  std::size_t response = prompts.size() - 1;  // index in `sequences`
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
    add_tiles(tiles, tree, sequence_of);
  }
  result.query_tiles = ordered(tiles, query_work);
  result.key_tiles = ordered(std::move(tiles), key_work);
  return result;
}

}  // namespace dpo::ops
