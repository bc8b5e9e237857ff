// Trains with ranks as threads, and compares how long gathered blocks are kept (fsdp_reshard).
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "model/quantized_block.h"
#include "model/spec/adapter.h"
#include "shard/adapter.h"
#include "train/update.h"
#include "unit/comm/thread_group.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;
using config::Reshard;

// A rank's shard group, which counts its gathers.
class CountingGroup : public comm::ThreadGroup {
 public:
  using ThreadGroup::ThreadGroup;
  comm::Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    ++gathers;
    return ThreadGroup::all_gather(into, own);
  }
  int gathers = 0;
};

// The groups of replicas * shards ranks.
class Ranks {
 public:
  Ranks(int replicas, int shards) : replicas_(replicas), shards_(shards), all_(replicas * shards) {
    for (int i = 0; i < replicas; ++i) shard_.push_back(std::make_unique<comm::ThreadWorld>(shards));
    for (int i = 0; i < shards; ++i) replica_.push_back(std::make_unique<comm::ThreadWorld>(replicas));
  }

  int size() const { return all_.size; }

  shard::Mesh mesh(int rank) {
    const int replica = rank / shards_, shard = rank % shards_;
    shard::Mesh mesh;
    mesh.all = mesh.data = std::make_shared<comm::ThreadGroup>(all_, rank);
    mesh.shard = std::make_shared<CountingGroup>(*shard_[static_cast<std::size_t>(replica)], shard);
    mesh.model = mesh.shard;
    if (replicas_ > 1)
      mesh.replica = std::make_shared<comm::ThreadGroup>(*replica_[static_cast<std::size_t>(shard)], replica);
    return mesh;
  }

 private:
  int replicas_, shards_;
  comm::ThreadWorld all_;
  std::vector<std::unique_ptr<comm::ThreadWorld>> shard_, replica_;
};

enum class Frozen { reference, base, quantized_base };

struct Case {
  int replicas = 1, shards = 2;
  Frozen frozen = Frozen::reference;
  bool whole_gradients = false;
  bool evaluates = true;  // after each update
};

// Results of one rank, which must not depend on how long blocks are kept.
struct Trained {
  std::vector<double> losses;  // of updates, and of evaluations after them
  std::vector<at::Tensor> weights;
  std::vector<int> gathers;  // of each update
};

class Resharding : public testing::Test {
 protected:
  Resharding() : folder_(fs::path(testing::TempDir()) / "dpo_resharding") {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 16, "num_attention_heads": 2,
               "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 9, "max_position_embeddings": 32,
               "tie_word_embeddings": false})";
  }
  ~Resharding() override { fs::remove_all(folder_); }

  model::Weights weights_of(std::uint64_t seed, const model::Layout& layout) const {
    return checkpoint::new_model(folder_, at::kFloat, at::kCPU, seed, layout).weights;
  }

  shard::LocalModel base_model(const model::Model& model, const model::TensorTable& adapter, bool quantized,
                               const shard::Mesh& mesh, Reshard reshard) const {
    model::Weights weights = weights_of(1, quantized ? model::Layout() : mesh.layout());
    for (std::size_t i = 0; quantized && i < weights.blocks.size(); ++i)
      weights.blocks[i] =
          model::quantize(weights.blocks[i], model.table.blocks[i], ops::QuantizedDtype::nf4, mesh.layout());
    return shard::frozen_base(model.config, std::move(weights), adapter, mesh, reshard);
  }

  TrainState state_of(const Case& of, const shard::Mesh& mesh, Reshard reshard) const {
    const model::Model model =
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config);
    config::RunConfig run;
    run.adapter.name = of.frozen == Frozen::reference ? config::Adapter::none : config::Adapter::lora;
    config::Storage storage{.accumulates_unsharded = of.whole_gradients};
    config::set_reshard(storage, run, reshard);
    std::optional<shard::LocalModel> frozen;
    std::optional<Policy> policy;
    if (of.frozen == Frozen::reference) {
      frozen.emplace(model, weights_of(2, mesh.layout()), mesh, storage.reshard_frozen);
      policy.emplace(model, weights_of(1, mesh.layout()), storage, mesh);
    } else {
      const model::Model adapted = model::make_model(
          model.config, model::adapter_table(model.table, {.r = 2, .targets = {"q_proj", "up_proj"}}));
      frozen = base_model(model, adapted.trained, of.frozen == Frozen::quantized_base, mesh,
                          storage.reshard_frozen);
      policy.emplace(adapted, shard::new_adapter(adapted.trained, *frozen, at::kFloat, 1, mesh), storage,
                     mesh, frozen);
    }
    TrainState state{.mesh = mesh,
                     .policy = std::move(*policy),
                     .reference = live_reference({*frozen, {}}),
                     .optimizer = nullptr,
                     .schedule = {1e-2, 0},
                     .loss = {.name = config::Loss::dpo, .beta = 0.1},
                     .pass = {.recomputed_layers = 1},
                     .microbatches = 2};
    state.optimizer = optim::make_optimizer(config::Optimizer::AdamW, state.policy.trained());
    return state;
  }

  Trained train(const Case& of, const shard::Mesh& mesh, Reshard reshard) const {
    TrainState state = state_of(of, mesh, reshard);
    auto& group = dynamic_cast<CountingGroup&>(*mesh.shard);
    Trained trained;
    for (int i = 0; i < 3; ++i) {
      const int before = group.gathers;
      for (const Record& record : update(state, batch_).records) trained.losses.push_back(record.loss);
      trained.gathers.push_back(group.gathers - before);
      if (!of.evaluates) continue;
      for (const Record& record : evaluate(state, batch_)) trained.losses.push_back(record.loss);
    }
    for (const model::BlockWeights& block : state.policy.stored().blocks)
      trained.weights.push_back(block.flat.clone());
    return trained;
  }

  // Trains on all ranks, and returns the results of each.
  std::vector<Trained> train(const Case& of, Reshard reshard) const {
    Ranks ranks(of.replicas, of.shards);
    std::vector<Trained> trained(static_cast<std::size_t>(ranks.size()));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back(
          [&, rank] { trained[static_cast<std::size_t>(rank)] = train(of, ranks.mesh(rank), reshard); });
    threads.clear();
    return trained;
  }

 private:
  fs::path folder_;
  const std::vector<data::Token> one_ = {1, 2, 3}, two_ = {5, 1}, better_ = {4, 5, 0}, worse_ = {6, 0};
  const ExampleBatch batch_{.split = data::Split::Train,
                            .indices = {0, 1, 2, 3, 4},
                            .examples = {{.prompt = one_, .responses = {better_, worse_}},
                                         {.prompt = two_, .responses = {worse_, better_}},
                                         {.prompt = better_, .responses = {one_, worse_}},
                                         {.prompt = worse_, .responses = {two_, one_}},
                                         {.prompt = one_, .responses = {two_, worse_}}}};
};

std::string name_of(const Case& of) {
  return fmt::format("{} x {} ranks, frozen {}, whole gradients {}", of.replicas, of.shards,
                     static_cast<int>(of.frozen), of.whole_gradients);
}

// Evaluations and later updates see the weights that the optimizer has changed.
TEST_F(Resharding, DoesNotChangeResults) {
  for (const Case& of :
       {Case{1, 2, Frozen::reference}, Case{1, 4, Frozen::reference, true}, Case{1, 2, Frozen::base},
        Case{2, 2, Frozen::base, true}, Case{1, 4, Frozen::quantized_base}}) {
    const std::vector<Trained> expected = train(of, Reshard::pass);
    EXPECT_NE(expected[0].losses.front(), expected[0].losses.back());
    for (const Reshard reshard : {Reshard::update, Reshard::never}) {
      SCOPED_TRACE(name_of(of) + ", " + config::name_of(reshard));
      const std::vector<Trained> found = train(of, reshard);
      for (std::size_t rank = 0; rank < found.size(); ++rank) {
        EXPECT_EQ(found[rank].losses, expected[rank].losses);
        for (std::size_t i = 0; i < found[rank].weights.size(); ++i)
          EXPECT_TRUE(found[rank].weights[i].equal(expected[rank].weights[i])) << rank << ": " << i;
      }
    }
  }
}

TEST_F(Resharding, GathersEachBlockOncePerUpdateOrRun) {
  using Counts = std::vector<int>;
  constexpr int kAll = 5;              // blocks: embedding, three layers, head
  constexpr int kBackward = kAll - 2;  // the last two are still there
  const Case full{.evaluates = false}, lora{.frozen = Frozen::base, .evaluates = false};
  const auto gathers = [this](const Case& of, Reshard reshard) { return train(of, reshard)[1].gathers; };
  constexpr int kPass = 2 * (kAll + kAll + kBackward);  // of two microbatches
  EXPECT_EQ(gathers(full, Reshard::pass), (Counts{kPass, kPass, kPass}));
  // Two passes of the reference gather, and one of the policy.
  EXPECT_EQ(gathers(full, Reshard::update), (Counts{3 * kAll, 3 * kAll, 3 * kAll}));
  EXPECT_EQ(gathers(full, Reshard::never), (Counts{2 * kAll, kAll, kAll}));
  // The adapter is gathered in addition to its base, except by the reference.
  constexpr int kLora = 2 * (kAll + 2 * kAll + 2 * kBackward);
  EXPECT_EQ(gathers(lora, Reshard::pass), (Counts{kLora, kLora, kLora}));
  EXPECT_EQ(gathers(lora, Reshard::update), (Counts{2 * kAll, 2 * kAll, 2 * kAll}));
  EXPECT_EQ(gathers(lora, Reshard::never), (Counts{2 * kAll, kAll, kAll}));
}

}  // namespace
}  // namespace dpo::train
