// Float32 weights in two parts (ops/split_floats.h) are updated to the same bits as whole ones with a copy.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "optim/optimizer.h"

namespace dpo::optim {
namespace {

using Kind = config::Optimizer;
using Storage = config::OptimizerState;

// A matrix and a vector, with padding after each.
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

void expect_equal_steps(Kind kind, const OptimizerSettings& settings, at::Device device) {
  const at::Tensor start = at::randn({512}, at::TensorOptions(device)) * 0.02;
  const at::Tensor copy = at::zeros({512}, at::TensorOptions(at::kBFloat16).device(device));
  model::Weights whole{{with_views(start.clone())}}, parts{{in_two_parts(start)}};
  const model::Weights copies{{with_views(copy)}};
  const auto of_whole = make_optimizer(kind, whole, settings),
             of_parts = make_optimizer(kind, parts, settings);
  for (std::uint64_t step = 0; step < 30; ++step) {
    const at::Tensor gradient = at::randn({512}, at::TensorOptions(device));
    const model::Weights gradients{{with_views(gradient)}};
    of_whole->step(whole, gradients, 1e-4, step, {.gradient_scale = 0.5, .copy = &copies});
    of_parts->step(parts, gradients, 1e-4, step, {.gradient_scale = 0.5});
  }
  const model::BlockWeights& block = parts.blocks[0];
  EXPECT_FALSE(whole.blocks[0].flat.equal(start));
  EXPECT_TRUE(block.flat.equal(copy));
  EXPECT_TRUE(ops::joined(block.flat, block.rest).equal(whole.blocks[0].flat));
  const State one = of_whole->state(), other = of_parts->state();
  ASSERT_EQ(one.arrays.size(), other.arrays.size());
  for (std::size_t i = 0; i < one.arrays.size(); ++i)
    EXPECT_TRUE(one.arrays[i].blocks[0].equal(other.arrays[i].blocks[0])) << one.arrays[i].name;
}

TEST(SplitWeights, AreUpdatedLikeWholeOnes) {
  std::vector<at::Device> devices = {at::kCPU};
  if (at::globalContext().hasCUDA()) devices.emplace_back(at::kCUDA);
  for (const at::Device device : devices) {
    for (const Kind kind : {Kind::RMSprop, Kind::Adam, Kind::AdamW})
      for (const std::optional<Storage> state :
           {std::optional<Storage>(), {Storage::float32}, {Storage::bfloat16}, {Storage::eight_bit}}) {
        SCOPED_TRACE(name_of(kind) + (state ? ", state " + name_of(*state) : "") + ", " + device.str());
        expect_equal_steps(kind, {.state = state}, device);
      }
    for (const Kind kind : {Kind::SGD, Kind::Adafactor}) {
      SCOPED_TRACE(name_of(kind) + ", " + device.str());
      expect_equal_steps(kind, {.weight_decay = 0.1}, device);
    }
  }
}

}  // namespace
}  // namespace dpo::optim
