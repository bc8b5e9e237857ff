#include "optim/rounding.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/where.h>

#include "ops/generator.h"

namespace dpo::optim {
namespace {

// How many of float32's low bits the dtype drops.
int dropped_bits(at::ScalarType type) { return type == at::kBFloat16 ? 16 : 13; }

}  // namespace

void stochastic_round(at::Tensor& to, const at::Tensor& from, std::uint64_t seed) {
  const std::int64_t steps = std::int64_t{1} << dropped_bits(to.scalar_type());
  const at::Tensor bits = from.view(at::kInt);
  const at::Tensor noise =
      at::randint(steps, from.sizes(), ops::seeded_generator(from.device(), seed), bits.options());
  // Noise in the low bits carries into the high ones with a probability proportional to them. Infinities and
  // NaN must stay what they are.
  const at::Tensor rounded = ((bits + noise).bitwise_and_(-steps)).view(at::kFloat);
  to.copy_(at::where(from.isfinite(), rounded, from));
}

}  // namespace dpo::optim
