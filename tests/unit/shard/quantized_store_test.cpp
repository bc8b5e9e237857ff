#include "shard/quantized_store.h"

#include <map>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "model/quantized_block.h"
#include "model/spec/adapter.h"
#include "shard/adapter.h"

namespace dpo::shard {
namespace {

using ops::QuantizedDtype;

model::Weights quantize(const MadeModel& made, QuantizedDtype dtype) {
  model::Weights quantized;
  for (std::size_t i = 0; i < made.weights.blocks.size(); ++i)
    quantized.blocks.push_back(model::quantize(made.weights.blocks[i], made.model.table.blocks[i], dtype));
  return quantized;
}

// Returns the values of quantized weights as dense weights.
model::Weights plain_of(const MadeModel& made, const model::Weights& quantized) {
  model::Weights plain = model::make_weights(made.model.table, at::kFloat, at::kCPU);
  for (std::size_t i = 0; i < plain.blocks.size(); ++i)
    if (quantized.blocks[i].quantized)
      model::dequantize(quantized.blocks[i], plain.blocks[i].flat);
    else
      plain.blocks[i].flat.copy_(quantized.blocks[i].flat);
  return plain;
}

struct Passed {
  at::Tensor log_probs;
  model::Weights gradients;
};

Passed passed_by(const LocalModel& local, std::int64_t recomputed) {
  Passed result{{}, zeros_like(local.model().trained, local.weights(), at::kFloat, {})};
  model::ResidentGradients gradients(result.gradients);
  pass(local.model(), local.store(), gradients, make_forest(), recomputed, result.log_probs);
  return result;
}

TEST(QuantizedStore, HasMatricesOfLayersInFewBits) {
  for (const char* family : {"gpt2", "llama", "mixtral"}) {
    const MadeModel made = make_model(family);
    const model::Weights quantized = quantize(made, QuantizedDtype::int8), plain = plain_of(made, quantized);
    for (std::size_t b = 0; b < plain.blocks.size(); ++b) {
      EXPECT_EQ(quantized.blocks[b].quantized != nullptr,
                made.model.table.blocks[b].kind == model::BlockKind::layer);
      for (std::size_t t = 0; t < plain.blocks[b].tensors.size(); ++t) {
        const model::TensorInfo& info = made.model.table.blocks[b].tensors[t];
        EXPECT_NE(at::equal(plain.blocks[b].tensors[t].tensor, made.weights.blocks[b].tensors[t].tensor),
                  model::is_quantizable(made.model.table.blocks[b], info))
            << info.name;
      }
    }
  }
}

class SmallStoreTest : public testing::TestWithParam<std::tuple<const char*, QuantizedDtype, std::int64_t>> {
};

// Compares values and gradients of the adapter, and the base, which is the reference, to the bit.
TEST_P(SmallStoreTest, ComputesAsOverTheSameValues) {
  const auto [family, dtype, recomputed] = GetParam();
  const MadeModel made = make_model(family);
  const model::Weights quantized = quantize(made, dtype);
  const model::AdapterSettings settings{.dora = family == std::string("llama")};
  const model::Model model =
      model::make_model(made.model.config, model::adapter_table(made.model.table, settings));
  const LocalModel base = frozen_base(made.model.config, quantized, model.trained, {});
  const LocalModel plain = frozen_base(made.model.config, plain_of(made, quantized), model.trained, {});
  ASSERT_NE(dynamic_cast<const QuantizedStore*>(&base.store()), nullptr);
  const LocalModel found(model, base, new_adapter(model.trained, base, at::kFloat, 3, {}), {});
  const LocalModel expected(model, plain, new_adapter(model.trained, plain, at::kFloat, 3, {}), {});
  const Passed of_plain = passed_by(expected, recomputed);
  const model::Batch batch = model::make_batch(make_forest(), model.config.shape, at::kCPU);
  for (int i = 0; i < 2; ++i) {
    const Passed result = passed_by(found, recomputed);
    EXPECT_TRUE(at::equal(result.log_probs, of_plain.log_probs));
    for (std::size_t b = 0; b < result.gradients.blocks.size(); ++b)
      EXPECT_TRUE(at::equal(result.gradients.blocks[b].flat, of_plain.gradients.blocks[b].flat)) << b;
    EXPECT_TRUE(
        at::equal(model::forward(base.model(), base.store(), batch, {}).log_probs, of_plain.log_probs));
  }
  EXPECT_EQ(dynamic_cast<const QuantizedStore&>(base.store()).most_fetched(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Families, SmallStoreTest,
                         testing::Combine(testing::Values("gpt2", "llama", "mixtral"),
                                          testing::Values(QuantizedDtype::nf4, QuantizedDtype::int8,
                                                          QuantizedDtype::fp8),
                                          testing::Values(0, 2, 3)));

// Returns a rank's part of weights that this process has whole.
at::Tensor part_of(const at::Tensor& whole, const model::Block& block, const model::Layout& layout) {
  at::Tensor part = at::zeros({model::block_size(block, layout).shard_size});
  const model::LocalBlock all = model::local_block(block, {});
  for (const model::Piece& piece : model::pieces_of(block, layout))
    part.narrow(0, piece.to, piece.count)
        .copy_(whole.narrow(0, all.tensors[piece.tensor].start + piece.from, piece.count));
  return part;
}

// Returns the values of a tensor-parallel rank from the bytes of all its shards.
at::Tensor values_of_shards(const model::BlockWeights& whole, const model::Block& block, QuantizedDtype dtype,
                            model::Layout layout) {
  std::vector<at::Tensor> parts;
  model::BlockWeights part;
  for (layout.shard_rank = 0; layout.shard_rank < layout.shard_ranks; ++layout.shard_rank) {
    part = model::quantize(whole, block, dtype, layout);
    parts.push_back(part.flat);
  }
  const at::Tensor joined = at::cat(parts);
  if (!part.quantized) return joined;
  EXPECT_EQ(joined.numel(), part.quantized->size);
  const at::Tensor values = at::zeros({model::block_size(block, layout).size});
  model::dequantize(model::quantized_views(joined, *part.quantized), values);
  return values;
}

// Ranks must round like the whole, although their parts begin and end anywhere.
TEST(QuantizedStore, PartsHaveTheValuesOfTheWhole) {
  for (const auto& [family, most] : {std::pair("gpt2", 3), {"llama", 4}, {"mixtral", 5}})
    for (const QuantizedDtype dtype : {QuantizedDtype::nf4, QuantizedDtype::int8, QuantizedDtype::fp8}) {
      const MadeModel made = make_model(family);
      const model::Weights values = plain_of(made, quantize(made, dtype));
      for (const std::int64_t ranks : {1, 2, most})
        for (std::int64_t rank = 0; rank < ranks; ++rank)
          for (const std::size_t b : {std::size_t{0}, std::size_t{1}, made.weights.blocks.size() - 1}) {
            const model::Block& block = made.model.table.blocks[b];
            const at::Tensor expected = part_of(values.blocks[b].flat, block, {rank, ranks, 0, 1});
            for (const std::int64_t shards : {1, 3}) {
              const at::Tensor found =
                  values_of_shards(made.weights.blocks[b], block, dtype, {rank, ranks, 0, shards});
              EXPECT_TRUE(at::equal(found.narrow(0, 0, expected.numel()), expected))
                  << family << " " << block.prefix << " " << ranks << " x " << shards;
            }
          }
    }
}

// Has the parts of all ranks of a group, of which this process is one.
class KnownGroup : public comm::Group {
 public:
  KnownGroup(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  comm::Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    const at::Tensor whole = wholes.at(own.const_data_ptr());
    return comm::Work([this, whole, into] {
      into.copy_(whole);
      ++gathered;
    });
  }
  comm::Work all_reduce(const at::Tensor&, comm::Reduction) override { return {}; }
  comm::Work reduce_scatter(const at::Tensor&, const at::Tensor&) override { return {}; }
  comm::Work broadcast(const at::Tensor&, int) override { return {}; }
  void barrier() override {}
  std::shared_ptr<comm::Group> split(int) override { return nullptr; }

  std::map<const void*, at::Tensor> wholes;  // keyed by the address of this rank's part
  int gathered = 0;

 private:
  int rank_, size_;
};

// The bytes of the current and the next block are gathered. Only one block has values.
TEST(QuantizedStore, GathersBytesOfShards) {
  for (const std::int64_t recomputed : {0, 2, 3}) {
    const MadeModel made = make_model("llama");
    const model::Weights whole = quantize(made, QuantizedDtype::nf4);
    const LocalModel expected(made.model, plain_of(made, whole), {});
    const auto group = std::make_shared<KnownGroup>(1, 3);
    Mesh mesh;
    mesh.shard = group;
    model::Weights shards;
    for (std::size_t b = 0; b < made.weights.blocks.size(); ++b) {
      std::vector<at::Tensor> parts;
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        const model::BlockWeights part = model::quantize(made.weights.blocks[b], made.model.table.blocks[b],
                                                         QuantizedDtype::nf4, {0, 1, rank, 3});
        parts.push_back(part.flat);
        if (rank == 1) shards.blocks.push_back(part);
      }
      group->wholes[shards.blocks.back().flat.const_data_ptr()] = at::cat(parts);
    }
    const LocalModel local(made.model, shards, mesh);
    const auto& store = dynamic_cast<const QuantizedStore&>(local.store());
    const Passed of_plain = passed_by(expected, recomputed);
    for (int i = 0; i < 2; ++i) {
      Passed found{{}, zeros_like(made.model.table, made.weights, at::kFloat, {})};
      model::ResidentGradients gradients(found.gradients);
      pass(local.model(), local.store(), gradients, make_forest(), recomputed, found.log_probs);
      EXPECT_TRUE(at::equal(found.log_probs, of_plain.log_probs));
      for (std::size_t b = 0; b < found.gradients.blocks.size(); ++b)
        EXPECT_TRUE(at::equal(found.gradients.blocks[b].flat, of_plain.gradients.blocks[b].flat)) << b;
    }
    EXPECT_EQ(store.most_fetched(), 1u);
    local.store().end_pass();
    const int before = group->gathered;
    local.store().weights(1, 2);
    EXPECT_EQ(group->gathered, before + 1);  // without a wait for the next one
    local.store().release(1);
    local.store().end_pass();
    EXPECT_EQ(group->gathered, before + 2);
  }
}

TEST(QuantizedStore, MovesToADevice) {
  const MadeModel made = make_model("llama");
  const model::Weights quantized = quantize(made, QuantizedDtype::nf4);
  const std::vector<at::Device> devices(quantized.blocks.size(), at::kCPU);
  const model::Weights moved = to_devices(made.model.table, quantized, devices);
  const model::Weights expected = plain_of(made, quantized), found = plain_of(made, moved);
  for (std::size_t b = 0; b < found.blocks.size(); ++b)
    EXPECT_TRUE(at::equal(found.blocks[b].flat, expected.blocks[b].flat));
}

}  // namespace
}  // namespace dpo::shard
