// When gradients are reduced, and what the reduced buffers contain.
#include "shard/gradients.h"

#include <ATen/Context.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "shard/local_model.h"

namespace dpo::shard {
namespace {

// Rank 0 of two, without the other: sums are its own. Counts its operations.
class FirstOfTwo : public comm::Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  comm::Work all_reduce(const at::Tensor&, comm::Reduction) override { return count(); }
  comm::Work all_gather(const at::Tensor&, const at::Tensor&) override { return {}; }
  comm::Work reduce_scatter(const at::Tensor&, const at::Tensor&) override { return count(); }
  comm::Work broadcast(const at::Tensor&, int) override { return {}; }
  void barrier() override {}
  std::shared_ptr<comm::Group> split(int) override { return nullptr; }

  int started = 0, waited = 0;

 private:
  comm::Work count() {
    ++started;
    return comm::Work([this] { ++waited; });
  }
};

// Gradients of a model with four blocks or more, over groups of two.
struct Reduced {
  explicit Reduced(bool sharded, bool replicated, bool accumulates = false) {
    if (sharded) mesh.shard = shards;
    if (replicated) mesh.replica = replicas;
    sums = zeros_like(made.model.table, made.weights, at::kFloat, mesh.layout());
    gradients = make_gradients(made.model.table, sums, mesh, {.accumulate_whole = accumulates});
    gradients->begin();
  }

  int blocks() const { return static_cast<int>(sums.blocks.size()); }

  // Completes a block whose gradients are all 1.
  void complete(int block) {
    for (model::NamedTensor& gradient : gradients->gradients(static_cast<std::size_t>(block)).operands)
      model::sum_of(&gradient).add(at::ones_like(gradient.tensor));
    gradients->complete(static_cast<std::size_t>(block));
  }

  const MadeModel made = make_model("llama");
  const std::shared_ptr<FirstOfTwo> shards = std::make_shared<FirstOfTwo>(),
                                    replicas = std::make_shared<FirstOfTwo>();
  Mesh mesh;
  model::Weights sums;
  std::unique_ptr<Gradients> gradients;
};

TEST(Gradients, OfReplicasAreSummedDuringTheLastPass) {
  for (const bool sharded : {false, true}) {
    Reduced reduced(sharded, /*replicated=*/true);
    for (int block = reduced.blocks(); block-- > 0;) reduced.complete(block);
    EXPECT_EQ(reduced.replicas->started, 0);
    reduced.gradients->begin_last_pass();
    for (int block = reduced.blocks(); block-- > 0;) {
      reduced.complete(block);
      // A shard is summed over replicas when its own reduction is done, while the next block's runs.
      EXPECT_EQ(reduced.replicas->started, reduced.blocks() - block - (sharded ? 1 : 0)) << block;
    }
    EXPECT_EQ(reduced.replicas->waited, 0);
    reduced.gradients->finish();
    EXPECT_EQ(reduced.replicas->started, reduced.blocks());
    EXPECT_EQ(reduced.replicas->waited, reduced.blocks());
    EXPECT_EQ(reduced.sums.blocks[1].flat[0].item<float>(), 2);  // of two passes
  }
}

TEST(Gradients, ThatAreAccumulatedAreScatteredDuringTheLastPass) {
  Reduced reduced(/*sharded=*/true, /*replicated=*/false, /*accumulates=*/true);
  for (int block = reduced.blocks(); block-- > 0;) reduced.complete(block);
  EXPECT_EQ(reduced.shards->started, 0);
  reduced.gradients->begin_last_pass();
  for (int block = reduced.blocks(); block-- > 0;) {
    reduced.complete(block);
    EXPECT_EQ(reduced.shards->started, reduced.blocks() - block);
  }
  reduced.gradients->finish();
  EXPECT_EQ(reduced.shards->started, reduced.blocks());
  EXPECT_EQ(reduced.sums.blocks[1].flat[0].item<float>(), 2);
}

// A head that shares the embedding's matrix completes the embedding's block before its own gradients.
TEST(Gradients, OfATiedEmbeddingAreSummedOnce) {
  for (const bool sharded : {false, true})
    for (const bool accumulates : {false, true}) {
      Reduced reduced(sharded, /*replicated=*/true, accumulates);
      reduced.gradients->begin_last_pass();
      reduced.complete(0);
      for (int block = reduced.blocks(); block-- > 0;) reduced.complete(block);
      reduced.gradients->finish();
      EXPECT_EQ(reduced.replicas->started, reduced.blocks());
      EXPECT_EQ(reduced.sums.blocks[0].flat[0].item<float>(), 2);
    }
}

// Without a last pass everything happens at the end.
TEST(Gradients, AreReducedAtTheEndOtherwise) {
  for (const bool accumulates : {false, true}) {
    Reduced reduced(/*sharded=*/true, /*replicated=*/true, accumulates);
    for (int block = reduced.blocks(); block-- > 0;) reduced.complete(block);
    reduced.gradients->finish();
    EXPECT_EQ(reduced.shards->started, reduced.blocks());
    EXPECT_EQ(reduced.replicas->started, reduced.blocks());
    EXPECT_EQ(reduced.sums.blocks[1].flat[0].item<float>(), 1);
  }
}

// Buffers are not zeroed before the first gradient. New memory is NaN here, as anything may be in it.
TEST(Gradients, ThatNothingComputesAreZero) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
  for (const bool accumulates : {false, true}) {
    Reduced reduced(/*sharded=*/true, /*replicated=*/false, accumulates);
    for (int update = 0; update < 2; ++update) {
      reduced.gradients->begin();
      for (model::BlockWeights& block : reduced.sums.blocks) block.flat.fill_(7);  // of an earlier update
      for (int block = reduced.blocks(); block-- > 0;) {
        model::BlockWeights& gradients = reduced.gradients->gradients(static_cast<std::size_t>(block));
        model::sum_of(&gradients.operands.front()).add(at::ones_like(gradients.operands.front().tensor));
        reduced.gradients->complete(static_cast<std::size_t>(block));
      }
      reduced.gradients->finish();
      for (const model::BlockWeights& block : reduced.sums.blocks) {
        EXPECT_EQ(block.flat.eq(1).logical_or(block.flat.eq(0)).all().item<bool>(), true);
        EXPECT_EQ(block.flat[0].item<float>(), 1);
      }
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

}  // namespace
}  // namespace dpo::shard
