#include <cmath>
#include <map>
#include <thread>

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "model/spec/adapter.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/rounding.h"
#include "optim/schedule.h"
#include "unit/comm/thread_group.h"

namespace dpo::optim {
namespace {

using Kind = config::Optimizer;

model::TensorTable two_blocks() {
  model::TensorTable table;
  table.blocks.push_back(
      {model::BlockKind::layer, "", {{"a", {3, 5}, std::nullopt, true}, {"b", {7}, std::nullopt, false}}});
  table.blocks.push_back({model::BlockKind::head, "", {{"c", {4}, std::nullopt, false}}});
  return table;
}

model::Weights filled(double value, at::ScalarType type = at::kFloat) {
  model::Weights weights = model::make_weights(two_blocks(), type, at::kCPU);
  for (model::BlockWeights& block : weights.blocks)
    for (model::NamedTensor& named : block.tensors) named.tensor.fill_(value);
  return weights;
}

TEST(Schedule, WarmsUpAsTheOriginalDoesAndThenStaysOrFalls) {
  Schedule schedule{.learning_rate = 2, .warmup = 3, .updates = 13};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(2), 1.5);
  EXPECT_DOUBLE_EQ(schedule.at(3), 2);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 2);
  schedule.kind = config::Schedule::linear;
  EXPECT_DOUBLE_EQ(schedule.at(1), 1);
  EXPECT_DOUBLE_EQ(schedule.at(3), 2);
  EXPECT_DOUBLE_EQ(schedule.at(8), 1);
  EXPECT_NEAR(schedule.at(13), 0, 1e-15);
  schedule.kind = config::Schedule::cosine;
  EXPECT_DOUBLE_EQ(schedule.at(3), 2);
  EXPECT_NEAR(schedule.at(8), 1, 1e-12);
  EXPECT_NEAR(schedule.at(12), 1 + std::cos(M_PI * 0.9), 1e-12);
}

TEST(Clip, ScalesDownWhatIsTooLongAndNothingElse) {
  const model::Weights gradients = filled(2);  // 26 elements
  const double norm = gradient_norm(gradients, two_blocks(), {}, *comm::single());
  EXPECT_NEAR(norm, 2 * std::sqrt(26.0), 1e-5);
  EXPECT_EQ(clip_factor(norm, 100), 1);
  EXPECT_NEAR(clip_factor(norm, 1) * norm, 1, 1e-5);
}

// A step with a scale and a copy must equal one with scaled gradients, after which the weights are copied.
TEST(Optimizer, ScalesGradientsAndWritesTheCopy) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const Kind kind : config::all_choices<Kind>()) {
      model::Weights one = filled(1, type), other = filled(1, type), copy = filled(0, at::kHalf);
      const auto plain = make_optimizer(kind, one), full = make_optimizer(kind, other);
      for (int step = 1; step < 4; ++step) {
        plain->step(one, filled(0.5 * step), 0.1, 0);
        full->step(other, filled(2 * step), 0.1, 0, {0.25, &copy});
      }
      for (std::size_t b = 0; b < 2; ++b) {
        EXPECT_TRUE(one.blocks[b].flat.equal(other.blocks[b].flat)) << name_of(kind);
        EXPECT_TRUE(copy.blocks[b].flat.equal(other.blocks[b].flat.to(at::kHalf))) << name_of(kind);
      }
    }
}

TEST(Clip, NormOfManyNumbersIsExact) {
  model::TensorTable table;
  table.blocks.push_back({model::BlockKind::layer, "", {{"a", {3'000'000}, std::nullopt, false}}});
  model::Weights gradients = model::make_weights(table, at::kFloat, at::kCPU);
  const at::Tensor& all = gradients.blocks[0].flat.normal_();
  EXPECT_NEAR(
      gradient_norm(gradients, table, {}, *comm::single()) / all.to(at::kDouble).norm().item<double>(), 1,
      1e-12);
}

// Returns the norm that each rank of a mesh computes from its parts of the gradients.
std::vector<double> norms_on_ranks(const model::Weights& whole, const model::TensorTable& table,
                                   std::int64_t tensor_ranks, std::int64_t shard_ranks) {
  const auto ranks = static_cast<int>(tensor_ranks * shard_ranks);
  comm::ThreadWorld world(ranks);
  std::vector<double> norms(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const model::Layout layout{rank % tensor_ranks, tensor_ranks, rank / tensor_ranks, shard_ranks};
      model::Weights own;
      for (std::size_t b = 0; b < table.blocks.size(); ++b)
        own.blocks.push_back(model::part_of_block(whole.blocks[b].flat, table.blocks[b], layout));
      comm::ThreadGroup group(world, rank);
      norms[static_cast<std::size_t>(rank)] = gradient_norm(own, table, layout, group);
    });
  threads.clear();  // waits for them
  return norms;
}

// A shard may lie wholly within tensors that every tensor-parallel rank holds, and then counts nothing.
TEST(Clip, RanksOfAnyMeshComputeTheSameNorm) {
  const model::Model made = model::make_model(model::parse_model_config(
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 72, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 96, "max_position_embeddings": 64})",
      "test"));
  const std::vector<std::vector<std::string>> targets = {
      {"q_proj", "v_proj"}, {"all-linear"}, {"o_proj"}, {"down_proj", "k_proj"}, {"up_proj"}};
  std::vector<model::TensorTable> tables = {made.table};
  for (const std::vector<std::string>& names : targets)
    for (const std::int64_t r : {1, 4, 16})
      tables.push_back(model::adapter_table(made.table, {.r = r, .targets = names}));
  for (const model::TensorTable& table : tables) {
    const model::Weights whole = model::make_weights(table, at::kFloat, at::kCPU);
    for (const model::BlockWeights& block : whole.blocks)
      for (const model::NamedTensor& named : block.tensors) named.tensor.normal_();
    const double expected = gradient_norm(whole, table, {}, *comm::single());
    for (const std::int64_t tensor_ranks : {1, 2, 4})
      for (std::int64_t shard_ranks = 1; tensor_ranks * shard_ranks <= 16; shard_ranks *= 2)
        for (const double norm : norms_on_ranks(whole, table, tensor_ranks, shard_ranks))
          EXPECT_NEAR(norm / expected, 1, 1e-12) << tensor_ranks << " x " << shard_ranks;
  }
}

// Compares the CUDA kernels with LibTorch's operators on the CPU, whose bits parity.optim checks.
TEST(Optimizer, StepsOnCudaAsOnTheCpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  const OptimizerSettings defaults, own{std::pair(0.4, 0.95), 1e-3, 0.2};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [kind, settings] :
         {std::pair(Kind::RMSprop, defaults), std::pair(Kind::RMSprop, own), std::pair(Kind::Adam, defaults),
          std::pair(Kind::Adam, own), std::pair(Kind::AdamW, defaults), std::pair(Kind::AdamW, own),
          std::pair(Kind::SGD, defaults), std::pair(Kind::SGD, own)}) {
      const auto weights_on = [](at::Device device, at::ScalarType dtype) {
        return model::make_weights(two_blocks(), dtype, device);
      };
      model::Weights here = weights_on(at::kCPU, at::kFloat), there = weights_on(at::kCUDA, at::kFloat);
      model::Weights gradients = weights_on(at::kCPU, type), same = weights_on(at::kCUDA, type);
      for (std::size_t b = 0; b < here.blocks.size(); ++b) {
        here.blocks[b].flat.normal_();
        there.blocks[b].flat.copy_(here.blocks[b].flat);
      }
      const model::Weights copy = weights_on(at::kCUDA, at::kBFloat16);
      const auto one = make_optimizer(kind, here, settings), other = make_optimizer(kind, there, settings);
      for (int step = 0; step < 10; ++step) {
        for (std::size_t b = 0; b < here.blocks.size(); ++b) {
          gradients.blocks[b].flat.normal_();
          same.blocks[b].flat.copy_(gradients.blocks[b].flat);
        }
        one->step(here, gradients, 0.01, 1, {.gradient_scale = 0.7});
        other->step(there, same, 0.01, 1, {0.7, &copy});
      }
      for (std::size_t b = 0; b < here.blocks.size(); ++b) {
        EXPECT_TRUE(at::allclose(there.blocks[b].flat.cpu(), here.blocks[b].flat, 1e-6, 1e-7))
            << name_of(kind);
        EXPECT_TRUE(copy.blocks[b].flat.equal(there.blocks[b].flat.to(at::kBFloat16))) << name_of(kind);
      }
    }
}

TEST(StochasticRound, KeepsTheMeanTheSignAndWhatIsExact) {
  const at::Tensor exact = at::full({200'000}, 1.0 + 0.3 / 128);  // between two neighbours of bfloat16
  at::Tensor rounded = at::zeros({200'000}, at::kBFloat16);
  stochastic_round(rounded, exact, 7);
  EXPECT_NEAR(rounded.to(at::kDouble).mean().item<double>(), 1.0 + 0.3 / 128, 2e-5);
  EXPECT_GE(rounded.min().item<float>(), 1.0F);
  EXPECT_LE(rounded.max().item<float>(), 1.0F + 1.0F / 128);
  stochastic_round(rounded, at::full({200'000}, -1.5), 7);
  EXPECT_TRUE(rounded.eq(-1.5).all().item<bool>());
  stochastic_round(rounded, at::full({200'000}, INFINITY), 7);
  EXPECT_TRUE(rounded.isinf().all().item<bool>());
}

TEST(StochasticRound, GivesTheSameBitsForASeed) {
  const at::Tensor exact = at::randn({1000});
  at::Tensor one = at::zeros({1000}, at::kBFloat16), same = one.clone(), other = one.clone();
  stochastic_round(one, exact, 1);
  stochastic_round(same, exact, 1);
  stochastic_round(other, exact, 2);
  EXPECT_TRUE(one.equal(same));
  EXPECT_FALSE(one.equal(other));
}

// Rounding to nearest loses updates far below bfloat16's resolution. Stochastic rounding keeps them on
// average.
TEST(Optimizer, SmallUpdatesOfSixteenBitWeightsAddUp) {
  model::Weights weights = filled(1, at::kBFloat16);
  const model::Weights gradients = filled(1, at::kBFloat16);
  const auto sgd = make_optimizer(Kind::SGD, weights);
  for (std::uint64_t step = 0; step < 400; ++step) sgd->step(weights, gradients, 1e-4, step * 1000);
  double sum = 0;
  for (const model::BlockWeights& block : weights.blocks)
    for (const model::NamedTensor& named : block.tensors)
      sum += named.tensor.to(at::kDouble).sum().item<double>();
  EXPECT_NEAR(sum / 26, 1 - 400 * 1e-4, 0.012);
}

TEST(Optimizer, ResumesFromItsStateExactly) {
  for (const Kind kind : config::all_choices<Kind>()) {
    model::Weights whole = filled(1), parted = filled(1);
    const auto one = make_optimizer(kind, whole), first = make_optimizer(kind, parted);
    for (int step = 0; step < 3; ++step) {
      one->step(whole, filled(step + 1), 0.1, 0);
      first->step(parted, filled(step + 1), 0.1, 0);
    }
    const auto second = make_optimizer(kind, parted);
    const auto from = first->state(), to = second->state();
    ASSERT_EQ(from.arrays.size(), to.arrays.size());
    for (std::size_t i = 0; i < from.arrays.size(); ++i)
      for (std::size_t b = 0; b < 2; ++b) to.arrays[i].blocks[b].copy_(from.arrays[i].blocks[b]);
    ASSERT_EQ(from.tensors.size(), to.tensors.size());
    for (std::size_t i = 0; i < from.tensors.size(); ++i) to.tensors[i].values.copy_(from.tensors[i].values);
    second->set_updates(first->updates());
    one->step(whole, filled(5), 0.1, 0);
    second->step(parted, filled(5), 0.1, 0);
    for (std::size_t b = 0; b < 2; ++b)
      EXPECT_TRUE(whole.blocks[b].flat.equal(parted.blocks[b].flat)) << name_of(kind);
  }
}

// Without a gradient, only weight decay changes weights.
TEST(Optimizer, EveryParameterDecaysInAnyPrecision) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const Kind kind : config::all_choices<Kind>()) {
      model::Weights with = filled(1, type), without = filled(1, type);
      make_optimizer(kind, with, {.weight_decay = 0.5})->step(with, filled(0), 0.1, 1);
      make_optimizer(kind, without, {.weight_decay = 0})->step(without, filled(0), 0.1, 1);
      for (const model::BlockWeights& block : with.blocks)
        for (const model::NamedTensor& named : block.tensors)
          EXPECT_LT(named.tensor.max().item<double>(), 0.97) << name_of(kind) << " " << named.name;
      for (const model::BlockWeights& block : without.blocks)
        for (const model::NamedTensor& named : block.tensors)
          EXPECT_TRUE(named.tensor.eq(1).all().item<bool>()) << name_of(kind) << " " << named.name;
    }
}

TEST(Optimizer, StateIsLaidOutLikeTheWeights) {
  const model::Weights weights = filled(1);
  for (const auto& [kind, arrays] : std::map<Kind, std::size_t>{
           {Kind::RMSprop, 1}, {Kind::Adam, 2}, {Kind::AdamW, 2}, {Kind::SGD, 0}, {Kind::Adafactor, 0}}) {
    const State state = make_optimizer(kind, weights)->state();
    EXPECT_EQ(state.arrays.size(), arrays) << name_of(kind);
    for (const StateArray& array : state.arrays) {
      ASSERT_EQ(array.blocks.size(), weights.blocks.size());
      for (std::size_t b = 0; b < weights.blocks.size(); ++b)
        EXPECT_EQ(array.blocks[b].sizes(), weights.blocks[b].flat.sizes()) << name_of(kind);
    }
    EXPECT_EQ(state.tensors.empty(), kind != Kind::Adafactor);
  }
}

}  // namespace
}  // namespace dpo::optim
