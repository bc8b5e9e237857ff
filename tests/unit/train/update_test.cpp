#include "train/update.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "checkpoint/tensor_parts.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

// A tiny policy that is compared with a model of the given seed; its own is 1.
class Updates : public testing::Test {
 protected:
  Updates() : folder_(fs::path(testing::TempDir()) / "dpo_updates") {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2,
               "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 9,
               "max_position_embeddings": 16})";
  }
  ~Updates() override { fs::remove_all(folder_); }

  model::Weights weights_of(std::uint64_t seed) const {
    return checkpoint::new_model(folder_, at::kFloat, at::kCPU, seed).weights;
  }

  TrainState state_against(std::uint64_t reference) const {
    const model::Model model =
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config);
    const shard::Mesh mesh;
    TrainState state{.mesh = mesh,
                     .policy = {model, weights_of(1), {at::kFloat, at::kFloat, at::kFloat}, mesh, {}},
                     .reference = live_reference({{model, weights_of(reference), mesh}, {}}),
                     .optimizer = nullptr,
                     .schedule = {1e-2, 0},
                     .loss = {},
                     .pass = {}};
    state.optimizer = optim::make_optimizer(config::Optimizer::SGD, state.policy.trained());
    return state;
  }

  ExampleBatch batch() const {
    return {.split = data::Split::Train,
            .indices = {7},
            .examples = {{.prompt = prompt_, .responses = {better_, worse_}}}};
  }

 private:
  const std::vector<data::Token> prompt_ = {1, 2, 3}, better_ = {4, 5, 0}, worse_ = {6, 0};
  fs::path folder_;
};

std::vector<at::Tensor> copies_of(const model::Weights& weights) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& flat : checkpoint::flats_of(weights)) copies.push_back(flat.clone());
  return copies;
}

bool is_equal(const std::vector<at::Tensor>& before, const model::Weights& weights) {
  const std::vector<at::Tensor> now = checkpoint::flats_of(weights);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!before[i].equal(now[i])) return false;
  return true;
}

const auto kFirst = [](const UpdateResult& result) { require_equal_models(result, at::kFloat); };

TEST_F(Updates, ComparePolicyAndReferenceFirst) {
  TrainState changed = state_against(2);
  const std::vector<at::Tensor> before = copies_of(changed.policy.stored());
  try {
    update(changed, batch(), kFirst);
    FAIL() << "a different reference was not noticed";
  } catch (const TrainingFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("differ before the first update: example 7"),
              std::string::npos)
        << failure.what();
  }
  EXPECT_TRUE(is_equal(before, changed.policy.stored()));
  EXPECT_EQ(changed.optimizer->updates(), 0);
}

TEST_F(Updates, OfEqualModelsStartAtLogTwo) {
  TrainState state = state_against(1);
  const std::vector<at::Tensor> before = copies_of(state.policy.stored());
  EXPECT_NEAR(update(state, batch(), kFirst).records[0].loss, std::log(2.0), 1e-6);
  EXPECT_FALSE(is_equal(before, state.policy.stored()));
}

}  // namespace
}  // namespace dpo::train
