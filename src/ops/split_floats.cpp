#include "ops/split_floats.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "ops/state_math.h"
#include "ops/vector_loops.h"

namespace dpo::ops {
namespace {

constexpr std::int64_t kBitsOfByte = 8;           // of carries
constexpr std::int64_t kOperatorPiece = 1 << 24;  // numbers per call of the operators, to save memory
constexpr std::int64_t kBytesOfThread = 1 << 12;  // bytes of carries per thread

DPO_FOR_EACH_CPU
void split_bytes(const std::uint32_t* exact, std::uint16_t* rounded, std::uint16_t* low,
                 std::uint8_t* carries, std::int64_t count) {
  for (std::int64_t byte = 0; byte < count; ++byte) {
    std::uint32_t all = 0;
    for (std::int64_t bit = 0; bit < kBitsOfByte; ++bit) {
      const std::int64_t i = byte * kBitsOfByte + bit;
      rounded[i] = bfloat16_of(exact[i]);
      low[i] = static_cast<std::uint16_t>(exact[i]);
      all |= carry_of(exact[i], rounded[i]) << bit;
    }
    carries[byte] = static_cast<std::uint8_t>(all);
  }
}

DPO_FOR_EACH_CPU
void join_bytes(std::uint32_t* exact, const std::uint16_t* rounded, const std::uint16_t* low,
                const std::uint8_t* carries, std::int64_t count) {
  for (std::int64_t byte = 0; byte < count; ++byte)
    for (std::int64_t bit = 0; bit < kBitsOfByte; ++bit) {
      const std::int64_t i = byte * kBitsOfByte + bit;
      exact[i] = joined_bits(rounded[i], low[i], (carries[byte] >> bit) & 1U);
    }
}

template <class T>
T* data_of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Calls `action` with the start and the count of each piece.
template <class Action>
void in_pieces(std::int64_t count, const Action& action) {
  for (std::int64_t from = 0; from < count; from += kOperatorPiece)
    action(from, std::min(kOperatorPiece, count - from));
}

at::Tensor places(at::Device device) {
  return at::arange(kBitsOfByte, at::TensorOptions(at::kShort).device(device));
}

// Returns a view of the lower or the upper half of each number.
at::Tensor half_of(const at::Tensor& exact, std::int64_t upper) {
  static_assert(std::endian::native == std::endian::little);
  return exact.view(at::kShort).view({-1, 2}).select(1, upper);
}

}  // namespace

namespace operators {

// The upper half of a number and its rounding differ by 0 or 1, so the lowest bit of their XOR is the carry.
void split(const at::Tensor& exact, at::Tensor rounded, const FloatRest& rest) {
  rounded.copy_(exact);
  rest.low.copy_(half_of(exact, 0));
  const at::Tensor carries = half_of(exact, 1).bitwise_xor(rounded.view(at::kShort)).bitwise_and_(1);
  rest.carries.copy_(carries.view({-1, kBitsOfByte}).bitwise_left_shift_(places(exact.device())).sum(1));
}

at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest) {
  const at::Tensor carries =
      rest.carries.to(at::kShort).unsqueeze(1).bitwise_right_shift(places(rounded.device())).bitwise_and_(1);
  const at::Tensor exact = at::empty(rounded.sizes(), rounded.options().dtype(at::kFloat));
  half_of(exact, 0).copy_(rest.low);
  half_of(exact, 1).copy_(rounded.view(at::kShort) - carries.view({-1}));
  return exact;
}

}  // namespace operators

FloatRest make_rest(std::int64_t count, at::Device device) {
  if (count % kBitsOfByte != 0) throw std::logic_error("numbers in two parts come in eights");
  return {at::empty({count}, at::TensorOptions(at::kShort).device(device)),
          at::empty({count / kBitsOfByte}, at::TensorOptions(at::kByte).device(device))};
}

FloatRest part_of(const FloatRest& rest, std::int64_t from, std::int64_t count) {
  if (!rest.defined()) return {};
  return {rest.low.narrow(0, from, count), rest.carries.narrow(0, from / kBitsOfByte, count / kBitsOfByte)};
}

void split(const at::Tensor& exact, at::Tensor& rounded, FloatRest& rest) {
  if (!exact.is_cpu())
    return in_pieces(exact.numel(), [&](std::int64_t from, std::int64_t count) {
      operators::split(exact.narrow(0, from, count), rounded.narrow(0, from, count),
                       part_of(rest, from, count));
    });
  at::parallel_for(0, rest.carries.numel(), kBytesOfThread, [&](std::int64_t begin, std::int64_t end) {
    split_bytes(data_of<std::uint32_t>(exact) + begin * kBitsOfByte,
                data_of<std::uint16_t>(rounded) + begin * kBitsOfByte,
                data_of<std::uint16_t>(rest.low) + begin * kBitsOfByte,
                data_of<std::uint8_t>(rest.carries) + begin, end - begin);
  });
}

void join(at::Tensor& exact, const at::Tensor& rounded, const FloatRest& rest) {
  if (!rounded.is_cpu())
    return in_pieces(rounded.numel(), [&](std::int64_t from, std::int64_t count) {
      exact.narrow(0, from, count)
          .copy_(operators::joined(rounded.narrow(0, from, count), part_of(rest, from, count)));
    });
  at::parallel_for(0, rest.carries.numel(), kBytesOfThread, [&](std::int64_t begin, std::int64_t end) {
    join_bytes(data_of<std::uint32_t>(exact) + begin * kBitsOfByte,
               data_of<std::uint16_t>(rounded) + begin * kBitsOfByte,
               data_of<std::uint16_t>(rest.low) + begin * kBitsOfByte,
               data_of<std::uint8_t>(rest.carries) + begin, end - begin);
  });
}

at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest) {
  at::Tensor exact = at::empty(rounded.sizes(), rounded.options().dtype(at::kFloat));
  join(exact, rounded, rest);
  return exact;
}

}  // namespace dpo::ops
