#include "model/spec/layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "base/number_formats.h"

namespace dpo::model {
namespace {

// Returns small models of every kind, with sizes that 1, 2 and 4 tensor-parallel ranks divide, and a
// vocabulary that they do not divide.
std::vector<ModelShape> shapes() {
  ModelShape base;
  base.layers = 2;
  base.hidden = 24;
  base.ffn = 40;
  base.heads = base.kv_heads = 4;
  base.head_dim = 6;
  base.context = 9;
  base.attention_bias = true;
  base.mlp_bias = true;
  std::vector<ModelShape> all;
  for (const std::int64_t vocabulary : {1, 3, 13, 257})
    for (const bool tied : {true, false})
      for (const Family family : all_families()) {
        ModelShape shape = base;
        shape.family = family;
        shape.vocabulary = vocabulary;
        shape.tied_embeddings = tied;
        if (family == Family::llama || family == Family::qwen3 || family == Family::phi3)
          shape.heads = 8;  // two queries per key
        if (shape.layer_kind() == LayerKind::mixture) {
          shape.experts = 3;
          shape.experts_per_token = 2;
        }
        all.push_back(shape);
      }
  return all;
}

// Calls check(table, tensor_ranks, shard_ranks) for every model and mesh.
template <class Check>
void for_each_mesh(const Check& check) {
  for (const ModelShape& shape : shapes())
    for (const std::int64_t tensor_ranks : {1, 2, 4})
      for (const std::int64_t shard_ranks : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(std::string(info_of(shape.family).name) + ", vocabulary " +
                     std::to_string(shape.vocabulary) + ", tensor " + std::to_string(tensor_ranks) +
                     ", shard " + std::to_string(shard_ranks));
        check(tensor_table(shape), tensor_ranks, shard_ranks);
        if (testing::Test::HasFailure()) return;
      }
}

// Adds to `times` how often each element of each tensor of a block is held by the ranks of one tensor rank.
void count_elements(const Block& block, Layout layout, std::vector<std::vector<int>>& times) {
  for (layout.shard_rank = 0; layout.shard_rank < layout.shard_ranks; ++layout.shard_rank)
    for (const Piece& piece : pieces_of(block, layout))
      for (std::int64_t i = 0; i < piece.count; ++i)
        ++times.at(piece.tensor).at(static_cast<std::size_t>(piece.from + i));
}

std::vector<std::vector<int>> zeros_for(const Block& block) {
  std::vector<std::vector<int>> zeros;
  for (const TensorInfo& tensor : block.tensors) zeros.emplace_back(static_cast<std::size_t>(tensor.count()));
  return zeros;
}

void expect_all(const std::vector<int>& times, int wanted, const std::string& name) {
  for (const int count : times) ASSERT_EQ(count, wanted) << name;
}

TEST(Layout, EveryElementIsHeldOnce) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks) {
      std::vector<std::vector<int>> together = zeros_for(block);
      for (std::int64_t rank = 0; rank < tensor_ranks; ++rank) {
        std::vector<std::vector<int>> own = zeros_for(block);
        count_elements(block, {rank, tensor_ranks, 0, shard_ranks}, own);
        for (std::size_t t = 0; t < own.size(); ++t) {
          if (!block.tensors[t].split) expect_all(own[t], 1, block.tensors[t].name);
          for (std::size_t i = 0; i < own[t].size(); ++i) together[t][i] += own[t][i];
        }
      }
      for (std::size_t t = 0; t < together.size(); ++t)
        if (block.tensors[t].split) expect_all(together[t], 1, block.tensors[t].name);
    }
  });
}

TEST(Layout, PiecesRiseWithinTheShard) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks)
      for (std::int64_t rank = 0; rank < tensor_ranks * shard_ranks; ++rank) {
        const Layout layout{rank % tensor_ranks, tensor_ranks, rank / tensor_ranks, shard_ranks};
        const LocalBlock local = local_block(block, layout);
        EXPECT_EQ(local.size, local.shard_size * shard_ranks);
        std::int64_t end = 0;
        for (const Piece& piece : pieces_of(block, layout)) {
          ASSERT_GT(piece.count, 0);
          ASSERT_GE(piece.to, end);
          end = piece.to + piece.count;
        }
        ASSERT_LE(end, local.shard_size);
      }
  });
}

// Tensors that tensor-parallel ranks replicate are rounded with random numbers that depend on their offset.
TEST(Layout, TensorsHaveTheSameOffsetOnAllTensorRanks) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks) {
      const LocalBlock first = local_block(block, {0, tensor_ranks, 0, shard_ranks});
      const LocalBlock last = local_block(block, {tensor_ranks - 1, tensor_ranks, 0, shard_ranks});
      EXPECT_EQ(first.size, last.size);
      for (std::size_t t = 0; t < first.tensors.size(); ++t)
        EXPECT_EQ(first.tensors[t].start, last.tensors[t].start) << block.tensors[t].name;
    }
  });
}

// All-gather needs shards of equal size, and vector instructions need alignment.
TEST(Layout, ShardsAreOfEqualSizeAndAligned) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks)
      for (std::int64_t rank = 0; rank < tensor_ranks; ++rank) {
        const LocalBlock local = local_block(block, {rank, tensor_ranks, 0, shard_ranks});
        EXPECT_EQ(local.shard_size % kStateGroup, 0);
        std::int64_t end = 0;
        for (const LocalTensor& tensor : local.tensors) {
          EXPECT_EQ(tensor.start % 64, 0);
          EXPECT_GE(tensor.start, end);
          end = tensor.start + tensor.count();
        }
        EXPECT_LE(end, local.size);
      }
  });
}

// A group of 8-bit state has one scale, which must not depend on elements that only some ranks hold.
TEST(Layout, ReplicatedAndSplitTensorsShareNoGroup) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks) {
      const LocalBlock local = local_block(block, {0, tensor_ranks, 0, shard_ranks});
      for (std::size_t t = 1; t < block.tensors.size(); ++t) {
        if (block.tensors[t].split.has_value() == block.tensors[t - 1].split.has_value()) continue;
        const std::int64_t last = local.tensors[t - 1].start + local.tensors[t - 1].count() - 1;
        EXPECT_LT(last / kStateGroup, local.tensors[t].start / kStateGroup) << block.tensors[t].name;
      }
    }
  });
}

// GPT-2 has queries, keys and values side by side in one matrix, and every rank has a part of each.
TEST(Layout, SectionsAreSplitByThemselves) {
  ModelShape shape = shapes().front();
  shape.vocabulary = 13;
  const Block layer = tensor_table(shape).blocks[1];
  const LocalTensor weight = local_block(layer, {1, 2, 0, 1}).tensors[2];
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{24, 36}));
  EXPECT_EQ(weight.repeats, 24);
  EXPECT_EQ(weight.stride, 72);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(weight.ranges.at(i).from, 12 + 24 * static_cast<std::int64_t>(i));
    EXPECT_EQ(weight.ranges.at(i).count, 12);
  }
}

// In Phi-3, the sections have different sizes.
TEST(Layout, SectionsMayDiffer) {
  ModelShape shape = shapes().front();
  shape.family = Family::phi3;
  shape.heads = 8;
  const Block layer = tensor_table(shape).blocks[1];
  ASSERT_EQ(layer.tensors[1].name, "model.layers.0.self_attn.qkv_proj.weight");
  const LocalTensor weight = local_block(layer, {1, 2, 0, 1}).tensors[1];
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{48, 24}));
  const std::int64_t expected[][2] = {{24, 24}, {48 + 12, 12}, {72 + 12, 12}};  // rows
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(weight.ranges.at(i).from, expected[i][0] * 24);
    EXPECT_EQ(weight.ranges.at(i).count, expected[i][1] * 24);
  }
}

TEST(Layout, SizesAreThoseOfTheBlock) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks) {
      const Layout layout{0, tensor_ranks, 0, shard_ranks};
      const LocalTensor last = local_block(block, layout).tensors.back();
      const std::int64_t filled = last.start + last.count();
      const BlockSize sizes = block_size(block, layout);
      EXPECT_EQ(sizes.shard_size, ((filled + shard_ranks - 1) / shard_ranks + 255) / 256 * 256);
      EXPECT_EQ(sizes.size, sizes.shard_size * shard_ranks);
    }
  });
}

// The block is the largest size that divides the beginnings and ends of all ranks' ranges.
TEST(Layout, BlocksOfRanksAreWholeBlocks) {
  std::set<std::int64_t> found;
  for_each_mesh([&](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t) {
    for (const Block& block : table.blocks)
      for (std::size_t i = 0; i < block.tensors.size(); ++i) {
        if (!is_quantizable(block, block.tensors[i])) continue;
        std::int64_t expected = 64;
        for (std::int64_t rank = 0; rank < tensor_ranks && tensor_ranks > 1; ++rank) {
          const LocalTensor local = local_block(block, {rank, tensor_ranks, 0, 1}).tensors[i];
          if (local.repeats > 1) expected = std::gcd(expected, local.stride);
          for (const Range& range : local.ranges)
            expected = std::gcd(std::gcd(expected, range.from), range.count);
        }
        EXPECT_EQ(nf4_group_on_ranks(block.tensors[i], tensor_ranks, 64), expected) << block.tensors[i].name;
        found.insert(expected);
      }
  });
  EXPECT_GE(found.size(), 4u);
}

TEST(Layout, TheLastRankMayHaveNothingOfASmallVocabulary) {
  ModelShape shape = shapes().front();
  shape.vocabulary = 3;
  const Block embedding = tensor_table(shape).blocks[0];
  const auto rows = [&](std::int64_t rank) {
    return local_block(embedding, {rank, 4, 0, 1}).tensors[0].shape[0];
  };
  EXPECT_EQ(rows(0), 1);
  EXPECT_EQ(rows(2), 1);
  EXPECT_EQ(rows(3), 0);
}

TEST(Layout, HeldTensorsArePiecesTogether) {
  for_each_mesh([](const TensorTable& table, std::int64_t tensor_ranks, std::int64_t shard_ranks) {
    for (const Block& block : table.blocks)
      for (std::int64_t rank = 0; rank < shard_ranks; ++rank) {
        const Layout layout{tensor_ranks - 1, tensor_ranks, rank, shard_ranks};
        const std::vector<Piece> pieces = pieces_of(block, layout);
        std::size_t next = 0;
        for (const HeldTensor& held : held_tensors(block, layout)) {
          std::int64_t to = held.to;
          for (const Range& range : held.ranges) {
            ASSERT_LT(next, pieces.size());
            EXPECT_EQ(pieces[next].tensor, held.tensor);
            EXPECT_EQ(pieces[next].from, range.from);
            EXPECT_EQ(pieces[next].to, to);
            EXPECT_EQ(pieces[next].count, range.count);
            to += range.count;
            ++next;
          }
          EXPECT_EQ(to, held.to + held.count);
        }
        EXPECT_EQ(next, pieces.size());
      }
  });
}

TEST(Layout, BlocksAreSpreadInOrderAndEvenly) {
  for (const ModelShape& shape : shapes()) {
    const TensorTable table = tensor_table(shape);
    for (std::size_t devices = 1; devices <= 5; ++devices) {
      const std::vector<std::size_t> device_of = spread_blocks(table, devices);
      ASSERT_EQ(device_of.size(), table.blocks.size());
      EXPECT_TRUE(std::ranges::is_sorted(device_of));
      std::vector<std::int64_t> held(devices);
      std::int64_t largest = 0;
      for (std::size_t i = 0; i < table.blocks.size(); ++i) {
        ASSERT_LT(device_of[i], devices);
        held[device_of[i]] += table.blocks[i].count();
        largest = std::max(largest, table.blocks[i].count());
      }
      EXPECT_LE(std::ranges::max(held), table.count() / static_cast<std::int64_t>(devices) + largest);
    }
  }
}

}  // namespace
}  // namespace dpo::model
