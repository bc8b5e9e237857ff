#include "optim/stored_state.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/bucketize.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/number_formats.h"
#include "ops/state_math.h"
#include "ops/transfers.h"
#include "optim/rounding.h"

namespace dpo::optim {
namespace {

bool has_codes(const StoredArray& array) { return array.values.scalar_type() == at::kByte; }

// Applies ops::code_of to every element.
at::Tensor codes_of(const at::Tensor& values, const at::Tensor& map) {
  const at::Tensor middles = (map.slice(0, 0, 255) + map.slice(0, 1)).mul_(0.5);
  const at::Tensor nearest = at::bucketize(values, middles, /*out_int32=*/true);
  const auto zero = at::bucketize(at::tensor(0.F, map.options()), map).item<std::int64_t>();
  // In a map without signs, 0 comes first.
  return zero == 0 ? at::where(values.gt(0).logical_and_(nearest.eq(0)), nearest + 1, nearest)
                   : at::where(values.lt(0).logical_and_(nearest.eq(zero)), nearest - 1, nearest);
}

}  // namespace

at::Tensor dynamic_map(bool is_signed) {
  constexpr int kDecades = 7;
  std::vector<float> map = {0, 1};
  for (int decade = 0; decade < kDecades; ++decade) {
    const std::int64_t count = std::int64_t{is_signed ? 1 : 2} << decade;
    const at::Tensor borders = at::linspace(0.1, 1, count + 1, at::kFloat);
    const at::Tensor means = (borders.slice(0, 0, count) + borders.slice(0, 1))
                                 .div_(2)
                                 .mul_(std::pow(10.0, decade - kDecades + 1));
    for (std::int64_t i = 0; i < count; ++i) {
      map.push_back(means[i].item<float>());
      if (is_signed) map.push_back(-map.back());
    }
  }
  std::ranges::sort(map);
  return at::tensor(map);
}

at::ScalarType state_dtype(std::optional<config::OptimizerState> asked, at::ScalarType weights) {
  if (!asked) return weights;
  switch (*asked) {
    case config::OptimizerState::float32: return at::kFloat;
    case config::OptimizerState::bfloat16: return at::kBFloat16;
    case config::OptimizerState::eight_bit: return at::kByte;
  }
  return weights;
}

StoredArray make_state(std::int64_t count, const StateFormat& format, at::Device device, bool on_host) {
  const auto zeros = [&](std::int64_t size, at::ScalarType dtype) {
    return on_host ? ops::host_zeros(size, dtype, device)
                   : at::zeros({size}, at::TensorOptions(dtype).device(device));
  };
  StoredArray array{zeros(count, format.dtype)};
  if (!has_codes(array)) return array;
  array.absmax = zeros(count / kStateGroup, at::kFloat);
  array.map = dynamic_map(format.is_signed).to(device);
  array.values.fill_(format.is_signed ? 127 : 0);  // the code of 0
  return array;
}

StoredArray part_of(const StoredArray& array, std::int64_t from, std::int64_t count) {
  StoredArray part{array.values.narrow(0, from, count), {}, array.map, ops::part_of(array.rest, from, count)};
  if (has_codes(array)) part.absmax = array.absmax.narrow(0, from / kStateGroup, count / kStateGroup);
  return part;
}

std::vector<StoredArray> parts_of(const std::vector<StoredArray>& arrays, std::int64_t from,
                                  std::int64_t count) {
  std::vector<StoredArray> parts;
  for (const StoredArray& array : arrays) parts.push_back(part_of(array, from, count));
  return parts;
}

at::Tensor loaded(const StoredArray& array) {
  if (array.rest.defined()) return ops::joined(array.values, array.rest);
  if (!has_codes(array)) return array.values.to(at::kFloat);
  const at::Tensor groups = array.map.index_select(0, array.values.to(at::kInt)).view({-1, kStateGroup});
  return groups.mul(array.absmax.unsqueeze(1)).view({-1});
}

bool is_rounded(const StoredArray& array) {
  return array.values.is_floating_point() && array.values.scalar_type() != at::kFloat &&
         !array.rest.defined();
}

void store(StoredArray& array, const at::Tensor& exact, const at::Tensor& bits, int lane) {
  if (array.rest.defined()) return ops::split(exact, array.values, array.rest);
  if (array.values.scalar_type() == at::kFloat) return;  // changed in place
  if (!has_codes(array)) return stochastic_round(array.values, exact, bits, lane);
  const at::Tensor groups = exact.view({-1, kStateGroup});
  array.absmax.copy_(groups.abs().amax(1));
  const at::Tensor scaled = groups / array.absmax.unsqueeze(1);
  array.values.copy_(codes_of(scaled.nan_to_num_(0), array.map).view({-1}));  // 0 / 0: all zeros
}

}  // namespace dpo::optim
