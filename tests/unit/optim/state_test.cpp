// Tests optimizer state in float32, 16 and 8 bits, on the device and offloaded.
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/splitmix64.h"
#include "model/spec/layout.h"
#include "ops/state_math.h"
#include "optim/optimizer.h"
#include "optim/rounding.h"
#include "optim/stored_state.h"

namespace dpo::optim {
namespace {

using Kind = config::Optimizer;
using Storage = config::OptimizerState;

constexpr Kind kKinds[] = {Kind::RMSprop, Kind::Adam, Kind::AdamW};
constexpr Storage kStorages[] = {Storage::float32, Storage::bfloat16, Storage::eight_bit};

std::string case_name(Kind kind, Storage storage, at::ScalarType type) {
  return name_of(kind) + ", state " + name_of(storage) + ", weights " + at::toString(type);
}

model::Weights weights_of(std::vector<at::Tensor> flats) {
  model::Weights weights;
  for (at::Tensor& flat : flats) weights.blocks.push_back({std::move(flat), {}});
  return weights;
}

at::Tensor random(std::int64_t count, std::uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({count}) * at::linspace(0.01, 1, count);
}

std::vector<float> numbers(const at::Tensor& tensor) {
  const at::Tensor floats = tensor.cpu().to(at::kFloat).contiguous();
  return {floats.const_data_ptr<float>(), floats.const_data_ptr<float>() + floats.numel()};
}

TEST(DynamicMap, HasSevenDecadesAndZero) {
  for (const bool is_signed : {true, false}) {
    const std::vector<float> map = numbers(dynamic_map(is_signed));
    ASSERT_EQ(map.size(), 256u);
    for (std::size_t i = 1; i < map.size(); ++i) EXPECT_LT(map[i - 1], map[i]) << i;
    EXPECT_EQ(map[is_signed ? 127 : 0], 0);
    EXPECT_EQ(map.back(), 1);
    EXPECT_FLOAT_EQ(map[is_signed ? 128 : 1], is_signed ? 5.5e-7F : 3.25e-7F);
    EXPECT_FLOAT_EQ(map.front(), is_signed ? -0.99296875F : 0);
  }
}

// The average of a gradient that was once small is divided by the root of its square, so only 0 may become 0.
TEST(Codes, OnlyZeroBecomesZeroInAMapWithoutSigns) {
  const at::Tensor plain = dynamic_map(false), with_signs = dynamic_map(true);
  EXPECT_EQ(ops::code_of(0, plain.const_data_ptr<float>()), 0);
  EXPECT_EQ(ops::code_of(1e-12F, plain.const_data_ptr<float>()), 1);
  EXPECT_EQ(ops::code_of(1e-12F, with_signs.const_data_ptr<float>()), 127);
  EXPECT_EQ(ops::code_of(-1e-12F, with_signs.const_data_ptr<float>()), 126);
}

TEST(StateMath, OperatorsAndKernelsRoundAlike) {
  const std::int64_t first = (std::int64_t{1} << 33) + 5;
  const at::Tensor bits = random_bits(7, first, 1000, at::kCPU);
  for (std::int64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(static_cast<std::uint64_t>(bits[i].item<std::int64_t>()),
              ops::random_bits(splitmix64(7), first + i));
  const at::Tensor exact = at::cat({at::randn({998}), at::tensor({INFINITY, -INFINITY})});
  for (const int lane : {0, 1, 2}) {
    at::Tensor rounded = at::zeros({1000}, at::kBFloat16);
    stochastic_round(rounded, exact, bits, lane);
    const std::vector<float> from = numbers(exact), to = numbers(rounded);
    for (std::size_t i = 0; i < 1000; ++i) {
      std::uint32_t value = 0, expected = 0;
      std::memcpy(&value, &from[i], 4);
      std::memcpy(&expected, &to[i], 4);
      const auto own = ops::random_bits(splitmix64(7), first + static_cast<std::int64_t>(i));
      ASSERT_EQ(ops::rounded_bits(value, ops::lane_of(own, lane)), expected) << from[i];
    }
  }
}

TEST(StateMath, CodesAreTheNearestOnOperatorsAndKernels) {
  for (const bool is_signed : {true, false}) {
    StoredArray array = make_state(1024, {at::kByte, is_signed}, at::kCPU);
    EXPECT_TRUE(loaded(array).eq(0).all().item<bool>());
    const at::Tensor exact = is_signed ? random(1024, 3) : random(1024, 3).abs();
    exact.slice(0, 256, 512).mul_(1e-9);  // most are far below its largest
    exact[300] = is_signed ? -1 : 1;
    exact.slice(0, 512, 768).zero_();
    store(array, exact, {}, 0);
    const std::vector<float> values = numbers(exact), map = numbers(array.map),
                             absmax = numbers(array.absmax);
    const std::vector<float> codes = numbers(array.values), back = numbers(loaded(array));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float scale = absmax[i / 256], share = scale > 0 ? values[i] / scale : 0;
      ASSERT_EQ(static_cast<int>(codes[i]), static_cast<int>(ops::code_of(share, map.data()))) << share;
      float nearest = 10;
      for (const float entry : map)
        if (entry != 0 || values[i] == 0 || (is_signed && values[i] > 0))
          nearest = std::min(nearest, std::abs(share - entry));
      ASSERT_FLOAT_EQ(std::abs(share - map[static_cast<std::size_t>(codes[i])]), nearest);
      ASSERT_EQ(back[i], map[static_cast<std::size_t>(codes[i])] * scale);
      if (values[i] < 0) {
        ASSERT_LT(back[i], 0);
      }
    }
    EXPECT_EQ(absmax[2], 0);
  }
}

// Computes one parameter by the formulas of torch.optim.
struct Parameter {
  double weight = 0, average = 0, square = 0;
  void step(Kind kind, double gradient, double lr, double t) {
    if (kind == Kind::RMSprop) {
      square = 0.99 * square + 0.01 * gradient * gradient;
      weight -= lr * gradient / (std::sqrt(square) + 1e-8);
      return;
    }
    if (kind == Kind::AdamW) weight *= 1 - lr * 0.01;
    average = 0.9 * average + 0.1 * gradient;
    square = 0.999 * square + 0.001 * gradient * gradient;
    weight -= lr / (1 - std::pow(0.9, t)) * average /
              (std::sqrt(square) / std::sqrt(1 - std::pow(0.999, t)) + 1e-8);
  }
};

std::vector<float> values_of(const Optimizer& optimizer, const std::string& name, bool is_signed) {
  const State state = optimizer.state();
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    if (state.arrays[i].name != name) continue;
    StoredArray array{state.arrays[i].blocks[0], {}, dynamic_map(is_signed)};
    if (array.values.scalar_type() == at::kByte) array.absmax = state.arrays[i + 1].blocks[0];
    return numbers(loaded(array));
  }
  return {};
}

// Returns the rounding that a number may have: one step of bfloat16, or half the distance of two 8-bit codes.
double rounding_of(at::ScalarType type, double value) {
  return std::abs(value) * (type == at::kBFloat16 ? 1.0 / 128 : 1e-5) + 1e-9;
}
double rounding_of(Storage storage, double value, double largest) {
  if (storage == Storage::eight_bit) return std::abs(value) * 0.32 + largest * 1e-6;
  return rounding_of(storage == Storage::float32 ? at::kFloat : at::kBFloat16, value);
}

TEST(OptimizerState, EveryStepIsTheRuleOnWhatIsStored) {
  constexpr std::int64_t kCount = 512;
  for (const Kind kind : kKinds)
    for (const Storage storage : kStorages)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(case_name(kind, storage, type));
        model::Weights weights = weights_of({random(kCount, 1).to(type)});
        const auto optimizer = make_optimizer(kind, weights, {.state = storage});
        const bool has_average = kind != Kind::RMSprop;
        const std::string square = has_average ? "exp_avg_sq" : "square_avg";
        for (int step = 1; step <= 4; ++step) {
          std::vector<float> average = values_of(*optimizer, "exp_avg", true);
          const std::vector<float> squares = values_of(*optimizer, square, false);
          average.resize(kCount);
          const std::vector<float> before = numbers(weights.blocks[0].flat);
          const at::Tensor gradient = random(kCount, static_cast<std::uint64_t>(10 + step));
          const std::vector<float> slopes = numbers(gradient);
          optimizer->step(weights, weights_of({gradient}), 0.01, 5);
          const std::vector<float> after = numbers(weights.blocks[0].flat);
          const std::vector<float> new_squares = values_of(*optimizer, square, false);
          const std::vector<float> new_average = values_of(*optimizer, "exp_avg", true);
          std::vector<Parameter> expected(kCount);
          std::array<double, 2> largest_average{}, largest_square{};
          for (std::size_t i = 0; i < kCount; ++i) {
            expected[i] = {before[i], average[i], squares[i]};
            expected[i].step(kind, slopes[i], 0.01, step);
            const std::size_t group = i / 256;
            largest_average[group] = std::max(largest_average[group], std::abs(expected[i].average));
            largest_square[group] = std::max(largest_square[group], expected[i].square);
          }
          for (std::size_t i = 0; i < kCount; ++i) {
            const Parameter& e = expected[i];
            ASSERT_NEAR(after[i], e.weight, rounding_of(type, e.weight)) << i;
            ASSERT_NEAR(new_squares[i], e.square, rounding_of(storage, e.square, largest_square[i / 256]));
            if (has_average) {
              ASSERT_NEAR(new_average[i], e.average,
                          rounding_of(storage, e.average, largest_average[i / 256]));
            }
          }
        }
      }
}

TEST(OptimizerState, IsStoredAsAsked) {
  const model::Weights weights = weights_of({at::zeros({512}), at::zeros({256})});
  const auto dtypes = [&](std::optional<Storage> storage) {
    std::map<std::string, at::ScalarType> found;
    for (const StateArray& array : make_optimizer(Kind::Adam, weights, {.state = storage})->state().arrays) {
      EXPECT_EQ(array.blocks[0].numel() * array.group, 512);
      EXPECT_EQ(array.blocks[1].numel() * array.group, 256);
      found[array.name] = array.blocks[0].scalar_type();
    }
    return found;
  };
  using Found = std::map<std::string, at::ScalarType>;
  EXPECT_EQ(dtypes(std::nullopt), (Found{{"exp_avg", at::kFloat}, {"exp_avg_sq", at::kFloat}}));
  EXPECT_EQ(dtypes(Storage::bfloat16), (Found{{"exp_avg", at::kBFloat16}, {"exp_avg_sq", at::kBFloat16}}));
  EXPECT_EQ(dtypes(Storage::eight_bit), (Found{{"exp_avg", at::kByte},
                                               {"exp_avg.absmax", at::kFloat},
                                               {"exp_avg_sq", at::kByte},
                                               {"exp_avg_sq.absmax", at::kFloat}}));
}

// Returns weights and all state after some steps.
std::vector<at::Tensor> after_steps(Kind kind, model::Weights weights, OptimizerSettings settings,
                                    const std::vector<at::Tensor>& gradients) {
  const auto optimizer = make_optimizer(kind, weights, settings);
  for (std::size_t step = 0; step < 3; ++step) {
    model::Weights now;
    for (const at::Tensor& gradient : gradients)
      now.blocks.push_back({gradient * static_cast<double>(step + 1), {}});
    optimizer->step(weights, now, 0.01, 9 * step);
  }
  std::vector<at::Tensor> all;
  for (const model::BlockWeights& block : weights.blocks) all.push_back(block.flat);
  for (const StateArray& array : optimizer->state().arrays)
    for (const at::Tensor& block : array.blocks) all.push_back(block.clone());
  return all;
}

// The bits do not depend on how many ranks share a buffer.
TEST(OptimizerState, ShardsHaveTheBitsOfTheWhole) {
  const at::Tensor start = random(1024, 1), gradient = random(1024, 2);
  for (const Kind kind : kKinds)
    for (const Storage storage : kStorages)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(case_name(kind, storage, type));
        const auto whole = after_steps(kind, weights_of({start.to(type, false, /*copy=*/true)}),
                                       {.state = storage}, {gradient});
        std::vector<std::vector<at::Tensor>> shards;
        for (std::int64_t rank = 0; rank < 2; ++rank)
          shards.push_back(
              after_steps(kind, weights_of({start.narrow(0, rank * 512, 512).to(type, false, /*copy=*/true)}),
                          {.state = storage, .shard_rank = rank}, {gradient.narrow(0, rank * 512, 512)}));
        for (std::size_t i = 0; i < whole.size(); ++i)
          EXPECT_TRUE(whole[i].equal(at::cat({shards[0][i], shards[1][i]}))) << i;
      }
}

// Uses more blocks than buffers, and once a block of two parts.
TEST(OptimizerState, OffloadedHasTheBitsOfResident) {
  const std::vector<at::Device> devices = at::globalContext().hasCUDA()
                                              ? std::vector<at::Device>{at::kCPU, at::kCUDA}
                                              : std::vector<at::Device>{at::kCPU};
  for (const at::Device device : devices)
    for (const Storage storage : kStorages) {
      SCOPED_TRACE(case_name(Kind::RMSprop, storage, at::kFloat));
      const std::int64_t large = storage == Storage::float32 ? model::kOffloadedPart + 512 : 512;
      std::vector<at::Tensor> start, gradients;
      for (const std::int64_t size :
           {std::int64_t{256}, large, std::int64_t{512}, std::int64_t{256}, std::int64_t{768}}) {
        start.push_back(random(size, 1).to(device));
        gradients.push_back(random(size, 2).to(device));
      }
      const auto run = [&](bool offload) {
        model::Weights weights;
        for (const at::Tensor& flat : start) weights.blocks.push_back({flat.clone(), {}});
        return after_steps(Kind::RMSprop, weights, {.state = storage, .offload = offload}, gradients);
      };
      const auto resident = run(false), offloaded = run(true);
      for (std::size_t i = 0; i < resident.size(); ++i)
        EXPECT_TRUE(resident[i].equal(offloaded[i].to(device))) << i;
    }
}

TEST(OptimizerState, ResumesToTheBit) {
  for (const Kind kind : kKinds)
    for (const Storage storage : kStorages)
      for (const bool offload : {false, true}) {
        SCOPED_TRACE(case_name(kind, storage, at::kBFloat16));
        const OptimizerSettings settings{.state = storage, .offload = offload};
        model::Weights whole = weights_of({random(256, 1).to(at::kBFloat16)});
        model::Weights parted = weights_of({whole.blocks[0].flat.clone()});
        const auto one = make_optimizer(kind, whole, settings),
                   first = make_optimizer(kind, parted, settings);
        const model::Weights gradients = weights_of({random(256, 2)});
        one->step(whole, gradients, 0.01, 1);
        first->step(parted, gradients, 0.01, 1);
        const auto second = make_optimizer(kind, parted, settings);
        const State from = first->state(), to = second->state();
        for (std::size_t i = 0; i < from.arrays.size(); ++i)
          to.arrays[i].blocks[0].copy_(from.arrays[i].blocks[0]);
        second->set_updates(1);
        one->step(whole, gradients, 0.01, 2);
        second->step(parted, gradients, 0.01, 2);
        EXPECT_TRUE(whole.blocks[0].flat.equal(parted.blocks[0].flat));
      }
}

// Compares our kernels with LibTorch's operators on the CPU. Sums that the compiler fuses (FMA) differ in the
// last bit, which can change the rounding of a number.
TEST(OptimizerState, StepsOnCudaAsOnTheCpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  const at::Tensor start = random(1024, 1), gradient = random(1024, 2);
  for (const Kind kind : kKinds)
    for (const Storage storage : kStorages)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(case_name(kind, storage, type));
        const auto run = [&](at::Device device) {
          return after_steps(kind, weights_of({start.to(device).to(type, false, /*copy=*/true)}),
                             {.state = storage}, {gradient.to(device)});
        };
        const auto here = run(at::kCPU), there = run(at::kCUDA);
        for (std::size_t i = 0; i < here.size(); ++i) {
          const at::Tensor one = here[i].to(at::kFloat), other = there[i].cpu().to(at::kFloat);
          const double share = one.isclose(other, 1e-5, 1e-7).to(at::kDouble).mean().item<double>();
          EXPECT_GT(share, 0.98) << i;
          // 16-bit numbers may be neighbours, 8-bit ones the next code.
          const bool has_codes = here[i].scalar_type() == at::kByte;
          EXPECT_TRUE(at::allclose(other, one, has_codes ? 0 : 0.02, has_codes ? 2 : 1e-3)) << i;
        }
      }
}

}  // namespace
}  // namespace dpo::optim
