#include "optim/rounding.h"

#include <algorithm>

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include "base/splitmix64.h"

namespace dpo::optim {
namespace {

// Returns how many of float32's low bits the dtype drops.
int dropped_bits(at::ScalarType type) { return type == at::kBFloat16 ? 16 : 13; }

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Clears the sign bits that LibTorch's right shift inserts.
at::Tensor shifted(const at::Tensor& values, int by) {
  return values.bitwise_right_shift(by).bitwise_and_((std::int64_t{1} << (64 - by)) - 1);
}

// Applies splitmix64 to every element, in place.
at::Tensor hashed(at::Tensor values) {
  values.add_(as_signed(0x9e3779b97f4a7c15));
  values.bitwise_xor_(shifted(values, 30)).mul_(as_signed(0xbf58476d1ce4e5b9));
  values.bitwise_xor_(shifted(values, 27)).mul_(as_signed(0x94d049bb133111eb));
  return values.bitwise_xor_(shifted(values, 31));
}

}  // namespace

at::Tensor random_bits(std::uint64_t seed, std::int64_t first, std::int64_t count, at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  return hashed(at::arange(first, first + count, options).add_(as_signed(splitmix64(seed))));
}

void stochastic_round(at::Tensor& to, const at::Tensor& from, const at::Tensor& bits, int lane) {
  const std::int64_t steps = std::int64_t{1} << dropped_bits(to.scalar_type());
  const at::Tensor noise = bits.bitwise_right_shift(16 * lane).bitwise_and_(steps - 1).to(at::kInt);
  // Noise in the low bits carries into the high ones with a probability proportional to them. Infinities and
  // NaN must stay what they are.
  const at::Tensor rounded = (from.view(at::kInt) + noise).bitwise_and_(-steps).view(at::kFloat);
  to.copy_(at::where(from.isfinite(), rounded, from));
}

// Works in pieces, because the random bits of an element take twice the memory of its float32 value.
void stochastic_round(at::Tensor& to, const at::Tensor& from, std::uint64_t seed) {
  constexpr std::int64_t kPiece = 1 << 20;
  const at::Tensor all_to = to.view({-1}), all_from = from.view({-1});
  for (std::int64_t first = 0; first < from.numel(); first += kPiece) {
    const std::int64_t count = std::min(kPiece, from.numel() - first);
    at::Tensor piece = all_to.narrow(0, first, count);
    stochastic_round(piece, all_from.narrow(0, first, count), random_bits(seed, first, count, from.device()),
                     0);
  }
}

}  // namespace dpo::optim
