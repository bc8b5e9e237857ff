// Checks that float32 weights in two parts (ops/split_floats.h) are updated to the same bits as whole ones
// with a copy.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "model/spec/layout.h"
#include "optim/optimizer.h"
#include "unit/ops/near_ties.h"

namespace dpo::optim {
namespace {

using Kind = config::Optimizer;
using Storage = config::OptimizerState;

// Returns a matrix and a vector, with padding after each.
model::BlockWeights with_views(const at::Tensor& flat) {
  model::BlockWeights block{flat, {}};
  block.tensors = {{"matrix", flat.narrow(0, 0, 96).view({8, 12})}, {"vector", flat.narrow(0, 128, 40)}};
  return block;
}

model::BlockWeights in_two_parts(const at::Tensor& exact) {
  at::Tensor rounded = at::empty(exact.sizes(), exact.options().dtype(at::kBFloat16));
  ops::FloatRest rest = ops::make_rest(exact.numel(), exact.device());
  ops::split(exact, rounded, rest);
  model::BlockWeights block = with_views(rounded);
  block.rest = rest;
  return block;
}

// Checks several steps, each with another gradient.
void expect_equal_steps(const at::Tensor& start, Kind kind, const OptimizerSettings& settings,
                        double learning_rate) {
  const at::Tensor copy = at::zeros_like(start, at::kBFloat16);
  model::Weights whole{{with_views(start.clone())}}, parts{{in_two_parts(start)}};
  const model::Weights copies{{with_views(copy)}};
  const auto of_whole = make_optimizer(kind, whole, settings),
             of_parts = make_optimizer(kind, parts, settings);
  for (std::uint64_t step = 0; step < 10; ++step) {
    const at::Tensor gradient = at::randn_like(start);
    const model::Weights gradients{{with_views(gradient)}};
    of_whole->step(whole, gradients, learning_rate, step, {.gradient_scale = 0.5, .copy = &copies});
    of_parts->step(parts, gradients, learning_rate, step, {.gradient_scale = 0.5});
  }
  const model::BlockWeights& block = parts.blocks[0];
  EXPECT_EQ(whole.blocks[0].flat.equal(start), learning_rate == 0);
  EXPECT_TRUE(block.flat.equal(copy));
  EXPECT_TRUE(ops::joined(block.flat, block.rest).equal(whole.blocks[0].flat));
  const State one = of_whole->state(), other = of_parts->state();
  ASSERT_EQ(one.arrays.size(), other.arrays.size());
  for (std::size_t i = 0; i < one.arrays.size(); ++i)
    EXPECT_TRUE(one.arrays[i].blocks[0].equal(other.arrays[i].blocks[0])) << one.arrays[i].name;
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (std::size_t i = 0; i < one.tensors.size(); ++i)
    EXPECT_TRUE(one.tensors[i].values.equal(other.tensors[i].values)) << one.tensors[i].name;
}

std::vector<at::Device> devices() {
  if (at::globalContext().hasCUDA()) return {at::kCPU, at::kCUDA};
  return {at::kCPU};
}

TEST(SplitWeights, AreUpdatedLikeWholeOnes) {
  for (const at::Device device : devices()) {
    const at::Tensor start = at::randn({512}, at::TensorOptions(device)) * 0.02;
    for (const Kind kind : {Kind::RMSprop, Kind::Adam, Kind::AdamW})
      for (const std::optional<Storage> state :
           {std::optional<Storage>(), {Storage::float32}, {Storage::bfloat16}, {Storage::eight_bit}}) {
        SCOPED_TRACE(name_of(kind) + (state ? ", state " + name_of(*state) : "") + ", " + device.str());
        expect_equal_steps(start, kind, {.state = state}, 1e-4);
      }
    for (const Kind kind : {Kind::SGD, Kind::Adafactor}) {
      SCOPED_TRACE(name_of(kind) + ", " + device.str());
      expect_equal_steps(start, kind, {.weight_decay = 0.1}, 1e-4);
    }
  }
}

// Applies updates of zero. Only for numbers in the middle, the direction of rounding cannot be seen in the
// other bits.
TEST(SplitWeights, InTheMiddleOfTwoNumbersStayAsTheyAre) {
  for (const at::Device device : devices())
    for (const Kind kind : {Kind::RMSprop, Kind::Adam, Kind::SGD}) {
      SCOPED_TRACE(name_of(kind) + ", " + device.str());
      expect_equal_steps(ops::numbers_near_ties().to(device), kind, {}, 0);
    }
}

TEST(SplitWeights, OfSeveralPieces) {
  for (const at::Device device : devices())
    for (const bool offload : {false, true}) {
      SCOPED_TRACE(device.str() + (offload ? ", offloaded" : ""));
      const std::int64_t count = (device.is_cpu() && !offload ? 1 << 18 : model::kOffloadedPart) + 512;
      expect_equal_steps(at::randn({count}, at::TensorOptions(device)) * 0.02, Kind::RMSprop,
                         {.offload = offload, .shard_rank = 1}, 1e-4);
    }
}

}  // namespace
}  // namespace dpo::optim
