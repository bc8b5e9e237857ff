// Checks that losses and gradients do not depend on how a batch is divided over ranks, even if ranks divide
// the responses of a prompt. Ranks are threads.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/load.h"
#include "checkpoint/tensor_parts.h"
#include "config/losses.h"
#include "train/update.h"
#include "unit/comm/thread_group.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

struct Computed {
  UpdateResult result;
  std::vector<at::Tensor> gradients;
  std::vector<Record> evaluated;
};

class DividedBatches : public testing::Test {
 protected:
  DividedBatches() : folder_(fs::path(testing::TempDir()) / fmt::format("dpo_divided_{}", ::getpid())) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2,
               "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 19,
               "max_position_embeddings": 64, "tie_word_embeddings": true})";
  }
  ~DividedBatches() override { fs::remove_all(folder_); }

  // Returns the state of a rank that has the whole model.
  TrainState state_of(const std::shared_ptr<comm::Group>& ranks, const config::LossConfig& loss,
                      std::int64_t microbatches, std::unique_ptr<Reference> reference) const {
    shard::Mesh mesh;
    mesh.all = mesh.replica = mesh.data = ranks;
    const auto weights = [&](std::uint64_t seed) {
      return checkpoint::new_model(folder_, at::kFloat, at::kCPU, seed).weights;
    };
    const model::Model model =
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config);
    TrainState state{
        .mesh = mesh,
        .policy = {model, weights(1), {}, mesh},
        .reference = reference ? std::move(reference) : live_reference({{model, weights(2), {}}, {}}),
        .optimizer = nullptr,
        .schedule = {1e-2, 0},
        .loss = loss,
        .pass = {},
        .microbatches = microbatches};
    state.optimizer = optim::make_optimizer(config::Optimizer::SGD, state.policy.trained());
    return state;
  }

  Computed compute(const std::shared_ptr<comm::Group>& ranks, const ExampleBatch& batch,
                   const config::LossConfig& loss, std::int64_t microbatches,
                   std::unique_ptr<Reference> reference = nullptr) const {
    TrainState state = state_of(ranks, loss, microbatches, std::move(reference));
    Computed computed{.result = compute_gradients(state, batch), .gradients = {}, .evaluated = {}};
    for (const at::Tensor& flat : checkpoint::flats_of(state.policy.gradients()))
      computed.gradients.push_back(flat.clone());
    computed.evaluated = evaluate(state, batch);
    return computed;
  }

  std::vector<Computed> compute_on_ranks(int count, const ExampleBatch& batch, const config::LossConfig& loss,
                                         std::int64_t microbatches,
                                         const std::function<std::unique_ptr<Reference>()>& reference) const {
    comm::ThreadWorld world(count);
    std::vector<Computed> computed(static_cast<std::size_t>(count));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] {
        computed[static_cast<std::size_t>(rank)] =
            compute(std::make_shared<comm::ThreadGroup>(world, rank), batch, loss, microbatches, reference());
      });
    threads.clear();  // waits for them
    return computed;
  }

  // Compares ranks with one process. `reference` makes the reference of a rank; by default it is live.
  void expect_equal(
      int ranks, const ExampleBatch& batch, config::LossConfig loss, std::int64_t microbatches = 1,
      const std::function<std::unique_ptr<Reference>()>& reference = [] {
        return std::unique_ptr<Reference>();
      }) const {
    SCOPED_TRACE(fmt::format("{}, {} ranks, {} microbatches", name_of(loss.name), ranks, microbatches));
    if (!uses_reference(loss)) return expect_equal_with(ranks, batch, loss, microbatches, no_reference);
    expect_equal_with(ranks, batch, loss, microbatches, reference);
  }

  // Returns how the batch is divided over these ranks.
  Microbatches divided(int ranks, const ExampleBatch& batch) const {
    shard::Mesh mesh;
    comm::ThreadWorld world(ranks);
    mesh.data = std::make_shared<comm::ThreadGroup>(world, 0);
    const model::Model model =
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config);
    return {batch, {}, mesh, model, at::kCPU};
  }

 private:
  void expect_equal_with(int ranks, const ExampleBatch& batch, const config::LossConfig& loss,
                         std::int64_t microbatches,
                         const std::function<std::unique_ptr<Reference>()>& reference) const {
    const Computed alone = compute(comm::single(), batch, loss, 1, reference());
    for (const Computed& rank : compute_on_ranks(ranks, batch, loss, microbatches, reference)) {
      expect_equal_records(rank.result.records, alone.result.records);
      expect_equal_records(rank.evaluated, alone.evaluated);
      EXPECT_EQ(rank.result.tokens, alone.result.tokens);
      EXPECT_NEAR(rank.result.gradient_norm, alone.result.gradient_norm, 1e-5 * alone.result.gradient_norm);
      ASSERT_EQ(rank.gradients.size(), alone.gradients.size());
      for (std::size_t i = 0; i < alone.gradients.size(); ++i) {
        const double largest = alone.gradients[i].abs().max().item<double>();
        EXPECT_GT(largest, 0);
        EXPECT_LE((rank.gradients[i] - alone.gradients[i]).abs().max().item<double>(), 1e-5 * largest);
      }
    }
  }

  static void expect_equal_records(const std::vector<Record>& found, const std::vector<Record>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t e = 0; e < expected.size(); ++e) {
      EXPECT_NEAR(found[e].loss, expected[e].loss, 1e-5);
      EXPECT_EQ(found[e].tokens, expected[e].tokens);
      for (std::size_t i = 0; i < expected[e].policy.size(); ++i) {
        EXPECT_NEAR(found[e].policy[i], expected[e].policy[i], 1e-4);
        EXPECT_NEAR(found[e].reference[i], expected[e].reference[i], 1e-4);
      }
    }
  }

  fs::path folder_;
};

ExampleBatch batch_with(std::vector<data::Example> examples) {
  ExampleBatch batch{.split = data::Split::Train, .indices = {}, .examples = std::move(examples)};
  for (std::uint32_t i = 0; i < batch.examples.size(); ++i) batch.indices.push_back(i);
  return batch;
}

const std::vector<data::Token> kLong = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, kShort = {3, 1}, kOther = {2},
                               kA = {13, 14, 2, 15, 7, 0}, kB = {16, 3, 17, 18, 1, 1, 0}, kC = {5, 6, 0},
                               kD = {7, 8, 9, 11, 0}, kE = {4, 0};

// A pair that ranks divide, a response that two pairs share, and pairs of other sizes.
ExampleBatch pairs() {
  return batch_with({{.prompt = kLong, .responses = {kA, kB}, .weight = 0.5},
                     {.prompt = kShort, .responses = {kC, kE}},
                     {.prompt = kLong, .responses = {kB, kD}},
                     {.prompt = kOther, .responses = {kE, kC}}});
}

TEST_F(DividedBatches, AreDividedInTheseTests) {
  const Microbatches divided_pairs = divided(3, pairs());
  EXPECT_TRUE(divided_pairs.has_divided(0));
  EXPECT_GT(divided_pairs.repeated_tokens(), 0);
  EXPECT_FALSE(divided(1, pairs()).has_divided(0));
  EXPECT_EQ(divided(1, pairs()).slowest_rank(), 1);
}

TEST_F(DividedBatches, HaveTheGradientsOfOneRank) {
  using config::Loss;
  for (const Loss loss : {Loss::dpo, Loss::ipo, Loss::simpo, Loss::kto, Loss::aot})
    expect_equal(3, pairs(), {.name = loss, .beta = 0.1});
  for (const int ranks : {2, 5}) expect_equal(ranks, pairs(), {.name = Loss::dpo, .beta = 0.1});
  for (const Loss loss : {Loss::dpo, Loss::aot}) expect_equal(3, pairs(), {.name = loss, .beta = 0.1}, 2);
}

TEST_F(DividedBatches, OfRankings) {
  const ExampleBatch batch = batch_with({{.prompt = kLong, .responses = {kA, kC, kB, kD, kE}},
                                         {.prompt = kShort, .responses = {kC, kE}},
                                         {.prompt = kLong, .responses = {kD, kA, kC}}});
  for (const int ranks : {2, 4, 9})  // of 9, some have nothing
    expect_equal(ranks, batch, {.name = config::Loss::plackett_luce, .beta = 0.1});
}

TEST_F(DividedBatches, OfSft) {
  const ExampleBatch batch = batch_with({{.prompt = kLong, .responses = {kA}},
                                         {.prompt = kLong, .responses = {kB}},
                                         {.prompt = kLong, .responses = {kC}},
                                         {.prompt = kShort, .responses = {kD}}});
  EXPECT_GT(divided(3, batch).repeated_tokens(), 0);  // responses of one prompt on several ranks
  EXPECT_FALSE(divided(3, batch).has_divided(0));     // but no example needs another rank's scores
  for (const int ranks : {2, 3, 6}) expect_equal(ranks, batch, {.name = config::Loss::sft});
}

// Responses of which pairs weight or score different tokens are different leaves.
TEST_F(DividedBatches, OfWeightedAndUnscoredTokens) {
  const std::vector<data::TokenRange> unscored = {{1, 3}};
  ExampleBatch batch = pairs();
  batch.examples[0].full_tokens = 2;
  batch.examples[0].tail_weight = 0.3F;
  batch.examples[2].unscored = {unscored, {}};
  for (const int ranks : {2, 4}) expect_equal(ranks, batch, {.name = config::Loss::dpo, .beta = 0.1});
}

TEST_F(DividedBatches, WithCachedScores) {
  const ExampleBatch batch = pairs();
  const auto reference = [&] {
    ScoreTable table(std::vector<std::int64_t>(4, 2));
    const data::Forest all = unshared_forest(batch);
    table.set(all, batch.indices, std::vector<double>{-3, -4, -5, -6, -4, -7, -8, -9});
    return cached_reference({table, {}});
  };
  EXPECT_EQ(divided(3, batch).has_divided(0), true);
  for (const int ranks : {2, 3})
    expect_equal(ranks, batch, {.name = config::Loss::dpo, .beta = 0.1}, 1, reference);
}

}  // namespace
}  // namespace dpo::train
