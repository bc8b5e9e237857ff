#include "shard/sharded_store.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "shard/gradients.h"

namespace dpo::shard {
namespace {

// A group of one rank that counts its calls.
class CountingGroup : public comm::Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  comm::Work all_reduce(const at::Tensor& tensor, comm::Reduction reduction) override {
    return one_->all_reduce(tensor, reduction);
  }
  comm::Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    ++gathers;
    return one_->all_gather(into, own);
  }
  comm::Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    ++scatters;
    return one_->reduce_scatter(own, from);
  }
  comm::Work broadcast(const at::Tensor& tensor, int root) override { return one_->broadcast(tensor, root); }
  void barrier() override {}
  std::shared_ptr<comm::Group> split(int colour) override { return one_->split(colour); }

  int gathers = 0, scatters = 0;

 private:
  std::shared_ptr<comm::Group> one_ = comm::single();
};

class ShardedStoreTest : public testing::TestWithParam<std::tuple<const char*, std::int64_t>> {};

TEST_P(ShardedStoreTest, GathersTwoBlocksAtMostAndComputesTheSame) {
  const auto [family, recomputed] = GetParam();
  const MadeModel made = make_model(family);
  const data::Forest forest = make_forest();
  at::Tensor expected, found;
  model::ResidentStore plain(made.weights);
  model::Weights plain_sums = model::make_weights(made.model.table, at::kFloat, at::kCPU);
  model::ResidentGradients plain_gradients(plain_sums);
  pass(made.model, plain, plain_gradients, forest, recomputed, expected);

  Mesh mesh;
  const auto group = std::make_shared<CountingGroup>();
  mesh.shard = group;
  ShardedStore store(made.model.table, made.weights, mesh);
  model::Weights sums = model::make_weights(made.model.table, at::kFloat, at::kCPU);
  model::ResidentGradients gradients(sums);
  for (int i = 0; i < 2; ++i) {  // twice: the first pass must not disturb the second
    for (model::BlockWeights& block : sums.blocks) block.flat.zero_();
    pass(made.model, store, gradients, forest, recomputed, found);
    EXPECT_TRUE(at::equal(found, expected));
    for (std::size_t b = 0; b < sums.blocks.size(); ++b)
      EXPECT_TRUE(at::equal(sums.blocks[b].flat, plain_sums.blocks[b].flat)) << b;
  }
  EXPECT_EQ(store.most_fetched(), 2u);
}

TEST(ShardedStore, PrefetchesTheNextBlockBeforeThisOneIsUsed) {
  const MadeModel made = make_model("llama");
  Mesh mesh;
  const auto group = std::make_shared<CountingGroup>();
  mesh.shard = group;
  ShardedStore store(made.model.table, made.weights, mesh);
  store.weights(0, 1);
  EXPECT_EQ(group->gathers, 2);
  store.release(0);
  store.weights(1, 2);
  EXPECT_EQ(group->gathers, 3);
  store.release(1);
  store.weights(2, 1);  // the backward pass begins, and the block is still there
  EXPECT_EQ(group->gathers, 3);
  store.release(2);
  store.end_pass();
  store.weights(2, std::nullopt);
  EXPECT_EQ(group->gathers, 4);
  store.release(2);
}

// Returns the gathers of two passes, of one after end_update(), and of one more.
std::vector<int> gathers_of(config::Reshard reshard) {
  MadeModel made = make_model("llama");
  Mesh mesh;
  const auto group = std::make_shared<CountingGroup>();
  mesh.shard = group;
  ShardedStore store(made.model.table, made.weights, mesh, reshard);
  std::vector<int> counts;
  const auto run_pass = [&] {
    const int before = group->gathers;
    for (std::size_t i = 0; i < store.blocks(); ++i)
      model::Lease(store, i, i + 1 < store.blocks() ? std::optional(i + 1) : std::nullopt);
    store.end_pass();
    counts.push_back(group->gathers - before);
  };
  run_pass();
  run_pass();
  store.end_update();
  run_pass();
  EXPECT_EQ(store.most_fetched(), reshard == config::Reshard::pass ? 2 : store.blocks());
  return counts;
}

TEST(ShardedStore, KeepsBlocksUntilAnUpdateOrForEver) {
  EXPECT_EQ(gathers_of(config::Reshard::pass), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(gathers_of(config::Reshard::update), (std::vector<int>{5, 0, 5}));
  EXPECT_EQ(gathers_of(config::Reshard::never), (std::vector<int>{5, 0, 0}));
}

TEST(ShardedStore, AnUpdateIsSeenByTheNextPass) {
  MadeModel made = make_model("llama");
  Mesh mesh;
  mesh.shard = std::make_shared<CountingGroup>();
  ShardedStore store(made.model.table, made.weights, mesh, config::Reshard::update);
  const auto first = [&] { return (*model::Lease(store, 0, std::nullopt)).flat[0].item<float>(); };
  const float before = first();
  made.weights.blocks[0].flat.add_(1);
  EXPECT_EQ(first(), before);
  store.end_update();
  EXPECT_EQ(first(), before + 1);
}

INSTANTIATE_TEST_SUITE_P(Families, ShardedStoreTest,
                         testing::Combine(testing::Values("gpt2", "llama", "mixtral"),
                                          testing::Values(0, 2, 3)));

// A rank without examples takes part in every exchange.
TEST(ShardedStore, AnEmptyForestAsksForTheSameBlocks) {
  for (const char* family : {"gpt2", "llama", "mixtral"}) {
    const MadeModel made = make_model(family);
    const auto exchanges = [&](const data::Forest& forest) {
      Mesh mesh;
      const auto group = std::make_shared<CountingGroup>();
      mesh.shard = group;
      ShardedStore store(made.model.table, made.weights, mesh);
      model::Weights sums = model::make_weights(made.model.table, at::kFloat, at::kCPU);
      model::ResidentGradients gradients(sums);
      at::Tensor log_probs;
      pass(made.model, store, gradients, forest, /*recomputed=*/0, log_probs);
      EXPECT_EQ(log_probs.size(0), forest.responses());
      return group->gathers;
    };
    EXPECT_EQ(exchanges(data::make_forest(std::vector<data::Example>())), exchanges(make_forest())) << family;
  }
}

}  // namespace
}  // namespace dpo::shard
