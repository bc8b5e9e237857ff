#include "train/update.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "checkpoint/tensor_parts.h"
#include "model/batch.h"
#include "model/spec/adapter.h"
#include "shard/adapter.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

const config::LossConfig kDpo = {.name = config::Loss::dpo, .beta = 0.1};

// A tiny policy that is compared with a model of the given seed. The policy's own seed is 1.
class Updates : public testing::Test {
 protected:
  Updates() : folder_(fs::path(testing::TempDir()) / "dpo_updates") {
    fs::create_directories(folder_);
    use_model(/*layers=*/1, /*tied=*/false);
  }
  ~Updates() override { fs::remove_all(folder_); }

  void use_model(int layers, bool tied) const {
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "llama", "num_hidden_layers": )" << layers
        << R"(, "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2,
               "intermediate_size": 20, "vocab_size": 9, "max_position_embeddings": 16,
               "tie_word_embeddings": )"
        << (tied ? "true}" : "false}");
  }

  model::Weights weights_of(std::uint64_t seed) const {
    return checkpoint::new_model(folder_, at::kFloat, at::kCPU, seed).weights;
  }

  TrainState state_against(std::uint64_t reference) const {
    const model::Model model =
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config);
    const shard::Mesh mesh;
    TrainState state{.mesh = mesh,
                     .policy = {model, weights_of(1), {}, mesh},
                     .reference = live_reference({{model, weights_of(reference), mesh}, {}}),
                     .optimizer = nullptr,
                     .schedule = {1e-2, 0},
                     .loss = kDpo,
                     .pass = {}};
    state.optimizer = optim::make_optimizer(config::Optimizer::SGD, state.policy.trained());
    return state;
  }

  // Returns a state without clipping, whose optimizer steps in the backward pass or after it.
  TrainState unclipped(bool in_backward, config::Dtype computed, config::Optimizer optimizer) const {
    const model::Model model =
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config);
    TrainState state{
        .mesh = {},
        .policy = {model,
                   weights_of(1),
                   {.computed = computed, .gradients = computed, .optimizer_in_backward = in_backward}},
        .reference = live_reference({{model, weights_of(1), {}}, {}}),
        .optimizer = nullptr,
        .schedule = {1e-2, 0},
        .loss = kDpo,
        .pass = {},
        .max_gradient_norm = std::nullopt};
    state.optimizer = optim::make_optimizer(optimizer, state.policy.trained());
    return state;
  }

  // Returns a policy with a new adapter over the model that is also its reference.
  TrainState state_with_adapter(const shard::LocalModel& base, double dropout = 0,
                                bool in_backward = false) const {
    const model::Model model = model::make_model(
        base.model().config,
        model::adapter_table(base.model().table, {.r = 2, .targets = {"q_proj", "up_proj"}}));
    model::Weights adapter = shard::new_adapter(model.trained, base, at::kFloat, 1, {});
    TrainState state{.mesh = {},
                     .policy = {model, std::move(adapter), {.optimizer_in_backward = in_backward}, {}, base},
                     .reference = live_reference({base, {}}),
                     .optimizer = nullptr,
                     .schedule = {1e-2, 0},
                     .loss = kDpo,
                     .pass = {},
                     .dropout = dropout};
    state.optimizer = optim::make_optimizer(config::Optimizer::AdamW, state.policy.trained());
    return state;
  }

  shard::LocalModel base_model() const {
    return {
        model::make_model(checkpoint::new_model(folder_, at::kFloat, at::kCPU, 1).config), weights_of(1), {}};
  }

  ExampleBatch batch() const {
    return {.split = data::Split::Train,
            .indices = {7},
            .examples = {{.prompt = prompt_, .responses = {better_, worse_}}}};
  }

  // Returns the scores of a forest and puts the gradients of their sum into the policy's buffers.
  ops::ResponseScores pass_over(TrainState& state, const data::Forest& forest) const {
    const model::Model& model = state.policy.model();
    const model::Batch packed = model::make_batch(forest, model.config.shape, at::kCPU);
    model::SavedActivations saved;
    state.policy.begin_gradients();
    ops::ResponseScores scores = model::forward(model, state.policy.store(), packed, state.pass, saved);
    model::backward(model, state.policy.store(), packed, state.pass, saved,
                    scores.log_probs.new_ones(scores.log_probs.sizes()), state.policy.gradient_store());
    state.policy.finish_gradients();
    return scores;
  }

  const std::vector<data::Token> prompt_ = {1, 2, 3}, better_ = {4, 5, 0}, worse_ = {6, 0};

 private:
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

// Returns the largest difference between two lists of tensors.
double difference(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    largest = std::max(largest, (one[i] - other[i]).abs().max().item<double>());
  return largest;
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

// Before the first update one pass scores both models. Afterwards they differ, and so would the results.
TEST_F(Updates, EvaluationsOfEqualModelsNeedOnePass) {
  TrainState state = state_against(1);
  const Record both = evaluate(state, batch()).at(0);
  const Record once = evaluate(state, batch(), /*equal_models=*/true).at(0);
  EXPECT_EQ(once.policy, both.policy);
  EXPECT_EQ(once.reference, both.reference);
  EXPECT_EQ(once.loss, both.loss);
  update(state, batch());
  EXPECT_NE(evaluate(state, batch()).at(0).policy, evaluate(state, batch()).at(0).reference);
}

// Blocks are updated as soon as they have their gradients, even an embedding to whose gradient the head adds.
TEST_F(Updates, BlockByBlockAreTheSameToTheBit) {
  using config::Optimizer;
  for (const bool tied : {false, true})
    for (const config::Dtype computed :
         {config::Dtype::float32, config::Dtype::bfloat16, config::Dtype::float16})
      for (const Optimizer optimizer :
           {Optimizer::SGD, Optimizer::RMSprop, Optimizer::AdamW, Optimizer::Adafactor}) {
        SCOPED_TRACE(name_of(optimizer) + ", " + name_of(computed) + (tied ? ", tied" : ""));
        use_model(/*layers=*/2, tied);
        TrainState kept = unclipped(/*in_backward=*/false, computed, optimizer);
        TrainState freed = unclipped(/*in_backward=*/true, computed, optimizer);
        const std::vector<at::Tensor> before = copies_of(freed.policy.stored());
        for (int i = 0; i < 3; ++i) {
          const UpdateResult expected = update(kept, batch()), result = update(freed, batch());
          EXPECT_EQ(result.gradient_norm, expected.gradient_norm);
          EXPECT_EQ(result.records[0].loss, expected.records[0].loss);
        }
        EXPECT_TRUE(is_equal(copies_of(kept.policy.stored()), freed.policy.stored()));
        EXPECT_FALSE(is_equal(before, freed.policy.stored()));
        EXPECT_EQ(freed.optimizer->updates(), 3);
      }
}

// With an adapter, most blocks have few gradients, and some have none.
TEST_F(Updates, BlockByBlockOfAnAdapterAreTheSame) {
  const auto trained = [&](bool in_backward) {
    TrainState state = state_with_adapter(base_model(), 0.5, in_backward);
    state.max_gradient_norm.reset();
    for (int i = 0; i < 3; ++i) update(state, batch());
    return copies_of(state.policy.stored());
  };
  EXPECT_EQ(difference(trained(false), trained(true)), 0);
}

TEST_F(Updates, BlockByBlockCheckTheLossesFirst) {
  TrainState state = unclipped(/*in_backward=*/true, config::Dtype::float32, config::Optimizer::AdamW);
  const std::vector<at::Tensor> before = copies_of(state.policy.stored());
  state.loss.beta = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(update(state, batch()), TrainingFailure);
  state.loss.beta = 0.1;
  EXPECT_THROW(update(state, batch(), [](const UpdateResult&) { throw TrainingFailure("no"); }),
               TrainingFailure);
  EXPECT_TRUE(is_equal(before, state.policy.stored()));
  EXPECT_EQ(state.optimizer->updates(), 0);
}

// A float16 gradient overflows although the loss does not.
TEST_F(Updates, BlockByBlockSayThatAnUpdateWasApplied) {
  for (const bool in_backward : {false, true}) {
    TrainState state = unclipped(in_backward, config::Dtype::float16, config::Optimizer::SGD);
    state.loss.beta = 1e7;
    state.loss.label_smoothing = 0.4;  // a gradient on either side
    try {
      update(state, batch());
      FAIL() << "an infinite gradient was not noticed";
    } catch (const TrainingFailure& failure) {
      const std::string text = failure.what();
      EXPECT_NE(text.find("a gradient (their norm is "), text.npos) << text;
      EXPECT_EQ(text.find("was not applied") != text.npos, !in_backward) << text;
      EXPECT_EQ(text.find("the weights are corrupted") != text.npos, in_backward) << text;
    }
  }
}

// The reference is the base without the adapter: the same weights, which no update changes.
TEST_F(Updates, OfAnAdapterLeaveTheBaseAsItIs) {
  const shard::LocalModel frozen = base_model();
  const std::vector<at::Tensor> before = copies_of(frozen.weights());
  TrainState state = state_with_adapter(frozen);
  EXPECT_NEAR(update(state, batch(), kFirst).records[0].loss, std::log(2.0), 1e-6);
  const Record first = update(state, batch()).records[0], second = update(state, batch()).records[0];
  EXPECT_LT(second.loss, first.loss);
  EXPECT_EQ(second.reference, first.reference);
  EXPECT_TRUE(is_equal(before, frozen.weights()));
}

TEST_F(Updates, HaveTheSameDropoutForASeed) {
  const auto trained = [&](std::uint64_t seed) {
    TrainState state = state_with_adapter(base_model(), 0.5);
    state.seed = seed;
    for (int i = 0; i < 3; ++i) update(state, batch());
    return copies_of(state.policy.stored());
  };
  EXPECT_EQ(difference(trained(1), trained(1)), 0);
  EXPECT_GT(difference(trained(1), trained(2)), 0);
}

// Tokens that are not scored are still read. The others' log-probabilities do not change, and the gradients
// are those of a sum in which the unscored ones count 0 times.
TEST_F(Updates, ScoreOnlyWhatIsToBeScored) {
  const std::vector<data::Token> turns = {4, 5, 7, 8, 6, 1, 0};
  const std::vector<data::TokenRange> users = {{0, 1}, {2, 5}};
  TrainState state = state_against(1);
  std::vector<data::Example> examples = {{.prompt = prompt_, .responses = {turns, worse_}}};
  data::Forest whole = data::make_forest(examples);
  const at::Tensor by_token = pass_over(state, whole).token_log_probs.clone();
  examples[0].unscored = {users, {}};
  const data::Forest masked = data::make_forest(examples);
  const ops::ResponseScores scores = pass_over(state, masked);
  const std::vector<at::Tensor> gradients = copies_of(state.policy.gradients());
  double scored = 0;
  for (const std::int64_t token : {1, 5, 6}) scored += by_token[token].item<double>();
  EXPECT_NEAR(scores.log_probs[0].item<double>(), scored, 1e-5);
  EXPECT_NEAR(scores.log_probs[1].item<double>(), by_token.slice(0, 7).sum().item<double>(), 1e-5);
  EXPECT_EQ(scores_of(masked, {0, 0}, {0, 0})[0].tokens, 3);  // |y|
  whole.row_weights = {0, 1, 0, 0, 0, 1, 1, 1, 1};
  pass_over(state, whole);
  EXPECT_LT(difference(gradients, copies_of(state.policy.gradients())), 1e-6);
  EXPECT_GT(difference(gradients, std::vector(gradients.size(), gradients[0].new_zeros({}))), 1e-3);
}

// A good and a bad response give the same comparisons, estimate of the KL and update as a pair and as two
// labelled responses.
TEST_F(Updates, OfLabelledResponsesAreThoseOfTheirPair) {
  TrainState state = state_against(2);
  state.loss.name = config::Loss::kto;
  state.loss.desirable_weight = 1.5;
  const UpdateResult paired = compute_gradients(state, batch());
  const std::vector<at::Tensor> gradients = copies_of(state.policy.gradients());
  const ExampleBatch labelled{.split = data::Split::Train,
                              .indices = {3, 4},
                              .examples = {{.prompt = prompt_, .responses = {better_}},
                                           {.prompt = prompt_, .responses = {worse_}, .desirable = false}}};
  const UpdateResult single = compute_gradients(state, labelled);
  ASSERT_EQ(single.records.size(), 2u);
  EXPECT_TRUE(single.records[0].desirable);
  EXPECT_FALSE(single.records[1].desirable);
  EXPECT_NEAR((single.records[0].loss + single.records[1].loss) / 2, paired.records[0].loss, 1e-7);
  EXPECT_NEAR(single.gradient_norm, paired.gradient_norm, 1e-6);
  EXPECT_LT(difference(gradients, copies_of(state.policy.gradients())), 1e-6);
  // With both at once, there are three examples and four comparisons, whose mean is that of either alone.
  ExampleBatch both = labelled;
  both.indices.push_back(7);
  both.examples.push_back(batch().examples[0]);
  EXPECT_EQ(count_comparisons(both, state.loss), 4u);
  compute_gradients(state, both);
  EXPECT_LT(difference(gradients, copies_of(state.policy.gradients())), 1e-6);
}

}  // namespace
}  // namespace dpo::train
