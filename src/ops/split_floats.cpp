#include "ops/split_floats.h"

#include <algorithm>
#include <bit>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

namespace dpo::ops {
namespace {

constexpr std::int64_t kBits = 8;  // of a byte of carries

// Calls `action` with a start and a count for one piece after the other, to save memory.
template <class Action>
void in_pieces(const at::Tensor& rounded, const Action& action) {
  const std::int64_t count = rounded.numel(), piece = rounded.is_cpu() ? 1 << 18 : 1 << 24;
  for (std::int64_t from = 0; from < count; from += piece) action(from, std::min(piece, count - from));
}

at::Tensor places(at::Device device) {
  return at::arange(kBits, at::TensorOptions(at::kShort).device(device));
}

// The lower or the upper half of each number: a view.
at::Tensor half_of(const at::Tensor& exact, std::int64_t upper) {
  static_assert(std::endian::native == std::endian::little);
  return exact.view(at::kShort).view({-1, 2}).select(1, upper);
}

// The upper halves of a number and of its rounding differ by 0 or 1.
void split_piece(const at::Tensor& exact, at::Tensor rounded, const FloatRest& rest) {
  rounded.copy_(exact);
  rest.low.copy_(half_of(exact, 0));
  const at::Tensor carries = half_of(exact, 1).bitwise_xor(rounded.view(at::kShort)).bitwise_and_(1);
  rest.carries.copy_(carries.view({-1, kBits}).bitwise_left_shift_(places(exact.device())).sum(1));
}

at::Tensor joined_piece(const at::Tensor& rounded, const FloatRest& rest) {
  const at::Tensor carries =
      rest.carries.to(at::kShort).unsqueeze(1).bitwise_right_shift(places(rounded.device())).bitwise_and_(1);
  const at::Tensor exact = at::empty(rounded.sizes(), rounded.options().dtype(at::kFloat));
  half_of(exact, 0).copy_(rest.low);
  half_of(exact, 1).copy_(rounded.view(at::kShort) - carries.view({-1}));
  return exact;
}

}  // namespace

FloatRest make_rest(std::int64_t count, at::Device device) {
  return {at::empty({count}, at::TensorOptions(at::kShort).device(device)),
          at::empty({count / kBits}, at::TensorOptions(at::kByte).device(device))};
}

FloatRest part_of(const FloatRest& rest, std::int64_t from, std::int64_t count) {
  if (!rest.defined()) return {};
  return {rest.low.narrow(0, from, count), rest.carries.narrow(0, from / kBits, count / kBits)};
}

void split(const at::Tensor& exact, at::Tensor& rounded, FloatRest& rest) {
  in_pieces(rounded, [&](std::int64_t from, std::int64_t count) {
    split_piece(exact.narrow(0, from, count), rounded.narrow(0, from, count), part_of(rest, from, count));
  });
}

void join(at::Tensor& exact, const at::Tensor& rounded, const FloatRest& rest) {
  in_pieces(rounded, [&](std::int64_t from, std::int64_t count) {
    exact.narrow(0, from, count)
        .copy_(joined_piece(rounded.narrow(0, from, count), part_of(rest, from, count)));
  });
}

at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest) {
  at::Tensor exact = at::empty(rounded.sizes(), rounded.options().dtype(at::kFloat));
  join(exact, rounded, rest);
  return exact;
}

}  // namespace dpo::ops
