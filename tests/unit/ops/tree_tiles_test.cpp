#include "ops/tree_tiles.h"

#include <algorithm>
#include <random>
#include <span>

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "ops/cuda/trees.h"
#include "unit/ops/random_forest.h"

namespace dpo::ops {
namespace {

std::span<const cuda::TreeTile> tiles_in(const std::vector<std::int32_t>& numbers) {
  return {reinterpret_cast<const cuda::TreeTile*>(numbers.data()),
          numbers.size() * sizeof(std::int32_t) / sizeof(cuda::TreeTile)};
}

// Calls action(own, other) for each token of a tile with each token of its tree, by their numbers.
template <class Action>
void for_each_pair(const cuda::TreeTile& tile, const Action& action) {
  const std::int32_t first = tile.number * cuda::kTreeTile;
  for (std::int32_t own = first; own < std::min(first + cuda::kTreeTile, tile.tokens); ++own)
    for (std::int32_t other = 0; other < tile.tokens; ++other) action(own, other);
}

std::int32_t token_in(const cuda::TreeTile& tile, std::int32_t number) {
  return number < tile.prompt_tokens ? tile.prompt + number : tile.responses + number - tile.prompt_tokens;
}

// Every pair of a query and a visible key must be in one tile of queries and one tile of keys.
TEST(TreeTiles, HaveAllPairs) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto [layout, allowed] = random_forest(random, at::kCPU, 4, 1 + static_cast<int>(seed) % 15, 0);
    const TreeTiles made =
        make_tree_tiles(layout->sequences.starts, layout->branches.starts, layout->prompts.starts);
    const at::Tensor found = at::zeros_like(allowed), seen = at::zeros_like(allowed);
    auto found_pairs = found.accessor<bool, 2>(), seen_pairs = seen.accessor<bool, 2>();
    for (const cuda::TreeTile& tile : tiles_in(made.query_tiles))
      for_each_pair(tile, [&](std::int32_t own, std::int32_t other) {
        const std::int32_t other_tile = other / cuda::kTreeTile;
        const std::int32_t start = made.starts[static_cast<std::size_t>(token_in(tile, own))];
        if (other <= own && (other < tile.prompt_tokens || other >= start) &&
            (other_tile < tile.shared_end || (other_tile >= tile.own_begin && other_tile <= tile.number)))
          found_pairs[token_in(tile, own)][token_in(tile, other)] = true;
      });
    for (const cuda::TreeTile& tile : tiles_in(made.key_tiles))
      for_each_pair(tile, [&](std::int32_t own, std::int32_t other) {
        const std::int32_t other_tile = other / cuda::kTreeTile;
        if (other_tile >= tile.number && other_tile <= tile.last)
          seen_pairs[token_in(tile, other)][token_in(tile, own)] = true;
      });
    EXPECT_TRUE(at::equal(found, allowed)) << "seed " << seed;
    EXPECT_TRUE(at::equal(seen.logical_and(allowed), allowed)) << "seed " << seed;
  }
}

// A short tree is followed by a sequence of 1,100 tokens. The sequence's last tile of queries has the most
// keys, and its first tile of keys the most queries. Tiles with less than half as much work come later.
TEST(TreeTiles, WithMuchWorkComeFirst) {
  const TreeTiles made = make_tree_tiles({0, 10, 110, 130, 1130}, {0, 20, 1020}, {0, 10, 110});
  const auto work_of_queries = [](const cuda::TreeTile& tile) {
    return tile.shared_end + tile.number + 1 - tile.own_begin;
  };
  const auto work_of_keys = [](const cuda::TreeTile& tile) { return tile.last + 1 - tile.number; };
  const auto check = [](std::span<const cuda::TreeTile> tiles, const auto& work) {
    ASSERT_EQ(tiles.size(), 19U);
    for (std::size_t i = 1; i < tiles.size(); ++i) EXPECT_LT(work(tiles[i]), 2 * work(tiles[i - 1])) << i;
    EXPECT_GE(2 * work(tiles.front()), 18);
    EXPECT_EQ(work(tiles.back()), 1);
  };
  check(tiles_in(made.query_tiles), work_of_queries);
  check(tiles_in(made.key_tiles), work_of_keys);
}

}  // namespace
}  // namespace dpo::ops
