#include "ops/head_rows.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>

#include "ops/fused.h"
#include "ops/vector_loops.h"

namespace dpo::ops {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements summed in float32 before the sum continues in float64

DPO_FOR_EACH_CPU
void widen(const std::uint16_t* in, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16);
}

DPO_FOR_EACH_CPU
void narrow(const float* in, std::uint16_t* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = bfloat16_of(std::bit_cast<std::uint32_t>(in[i]));
}

DPO_FOR_EACH_CPU
float max_of(const float* row, std::int64_t count) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = row[i + l] > lanes[l] ? row[i + l] : lanes[l];
  for (; i < count; ++i) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
  float largest = lanes[0];
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

DPO_FOR_EACH_CPU
double sum_of_exps(const float* row, float largest, std::int64_t count) {
  double sum = 0;
  for (std::int64_t start = 0; start < count; start += kBlock) {
    const std::int64_t end = start + kBlock < count ? start + kBlock : count;
    float lanes[kLanes] = {};
    std::int64_t i = start;
    for (; i + kLanes <= end; i += kLanes)
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += exp_of(row[i + l] - largest);
    for (; i < end; ++i) lanes[0] += exp_of(row[i] - largest);
    for (const float lane : lanes) sum += lane;
  }
  return sum;
}

// Returns the sum of d * e^d, where d is the distance to the largest element.
DPO_FOR_EACH_CPU
double sum_of_weighted_exps(const float* row, float largest, std::int64_t count) {
  double sum = 0;
  for (std::int64_t start = 0; start < count; start += kBlock) {
    const std::int64_t end = start + kBlock < count ? start + kBlock : count;
    float lanes[kLanes] = {};
    std::int64_t i = start;
    const auto term = [row, largest](std::int64_t at) {
      const float d = row[at] - largest, e = exp_of(d);
      return e == 0 ? 0 : d * e;  // d may be -inf
    };
    for (; i + kLanes <= end; i += kLanes)
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += term(i + l);
    for (; i < end; ++i) lanes[0] += term(i);
    for (const float lane : lanes) sum += lane;
  }
  return sum;
}

DPO_FOR_EACH_CPU
void softmax_times(float* row, float lse, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) row[i] = factor * exp_of(row[i] - lse);
}

// A writable copy of a row in float32.
class Row {
 public:
  explicit Row(std::int64_t size) : buffer_(static_cast<std::size_t>(size)) {}

  float* read(const at::Tensor& logits, std::int64_t row) {
    const std::int64_t size = logits.size(1);
    if (logits.scalar_type() == at::kFloat) {
      const float* from = logits.const_data_ptr<float>() + row * size;
      std::copy(from, from + size, buffer_.begin());
    } else {
      widen(reinterpret_cast<const std::uint16_t*>(logits.const_data_ptr()) + row * size, buffer_.data(),
            size);
    }
    return buffer_.data();
  }

  void write(at::Tensor& logits, std::int64_t row) const {
    const std::int64_t size = logits.size(1);
    if (logits.scalar_type() == at::kFloat)
      std::copy(buffer_.begin(), buffer_.end(), logits.mutable_data_ptr<float>() + row * size);
    else
      narrow(buffer_.data(), reinterpret_cast<std::uint16_t*>(logits.mutable_data_ptr()) + row * size, size);
  }

 private:
  std::vector<float> buffer_;
};

template <class Action>
void for_each_row(const at::Tensor& logits, const Action& action) {
  at::parallel_for(0, logits.size(0), 8, [&](std::int64_t begin, std::int64_t end) {
    Row row(logits.size(1));
    for (std::int64_t r = begin; r < end; ++r) action(r, row);
  });
}

// True if the loops above support these logits.
bool has_loop(const at::Tensor& logits) {
  return logits.is_cpu() && logits.is_contiguous() &&
         (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kBFloat16);
}

// The columns of a vocabulary shard: all of them, or those from `first` on.
struct Columns {
  std::int64_t first = 0, count = 0;

  // Returns the target's column in the shard, or nullopt if another rank has it.
  std::optional<std::int64_t> of(std::int64_t target) const {
    const std::int64_t column = target - first;
    return column >= 0 && column < count ? std::optional(column) : std::nullopt;
  }
};

// The log-sum-exp of each row and the logit of its target. With `normalize` the log-sum-exp is subtracted
// from the logit.
struct RowResults {
  at::Tensor lse, targets, entropy;
};

RowResults score_by_loop(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first_row,
                         bool normalize, bool with_entropy) {
  const Columns columns{first_row, logits.size(1)};
  const at::TensorOptions options = logits.options().dtype(at::kFloat);
  const auto output = [&] { return at::empty({logits.size(0)}, options); };
  RowResults results{output(), output(), with_entropy ? output() : at::Tensor()};
  const std::int64_t* target = targets.const_data_ptr<std::int64_t>();
  float *lse = results.lse.mutable_data_ptr<float>(), *found = results.targets.mutable_data_ptr<float>();
  float* entropy = with_entropy ? results.entropy.mutable_data_ptr<float>() : nullptr;
  for_each_row(logits, [&](std::int64_t r, Row& row) {
    const float* values = row.read(logits, r);
    const float largest = max_of(values, columns.count);
    const double sum = sum_of_exps(values, largest, columns.count);
    const double whole = static_cast<double>(largest) + std::log(sum);
    lse[r] = static_cast<float>(whole);
    const auto column = columns.of(target[r]);
    found[r] =
        static_cast<float>((column ? static_cast<double>(values[*column]) : 0) - (normalize ? whole : 0));
    if (entropy)
      entropy[r] =
          static_cast<float>(std::log(sum) - sum_of_weighted_exps(values, largest, columns.count) / sum);
  });
  return results;
}

void differentiate_by_loop(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                           const at::Tensor& scale, std::int64_t first_row) {
  const Columns columns{first_row, logits.size(1)};
  const std::int64_t* target = targets.const_data_ptr<std::int64_t>();
  const float *sums = lse.const_data_ptr<float>(), *factors = scale.const_data_ptr<float>();
  for_each_row(logits, [&](std::int64_t r, Row& row) {
    float* values = row.read(logits, r);
    softmax_times(values, sums[r], -factors[r], columns.count);
    if (const auto column = columns.of(target[r])) values[*column] += factors[r];
    row.write(logits, r);
  });
}

at::Tensor upcast(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

at::Tensor at_targets(const at::Tensor& logits, const at::Tensor& columns) {
  return logits.gather(1, columns.unsqueeze(1)).squeeze(1);
}

// Returns lse - sum(p * logit), which equals -sum(p * log p). Overwrites the logits.
at::Tensor entropy_of(at::Tensor& logits, const at::Tensor& lse) {
  const at::Tensor probabilities = (logits - lse.unsqueeze(1)).exp_();
  return lse - logits.mul_(probabilities).sum(1);
}

// The targets as columns of a shard's logits, and a mask of the targets in the shard.
struct ShardTargets {
  at::Tensor columns, is_own;
};

ShardTargets shard_targets(const at::Tensor& targets, std::int64_t first_row, std::int64_t size) {
  const at::Tensor columns = targets - first_row;
  return {columns.clamp(0, size - 1), columns.ge(0).logical_and_(columns.lt(size))};
}

}  // namespace

at::Tensor capped(const at::Tensor& x, double cap) {
  if (cap == 0) return x;
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  return wide.div_(cap).tanh_().mul_(cap);
}

bool reads_16_bit_rows(at::Device device, at::ScalarType dtype, double cap) {
  return device.is_cpu() ? dtype == at::kBFloat16 && cap == 0 : fused::has_kernels();
}

RowScores score_rows(at::Tensor logits, const at::Tensor& targets, bool with_entropy, double cap) {
  if (fused::supports_scoring(logits, targets)) return fused::score_rows(logits, targets, with_entropy, cap);
  logits = capped(logits, cap);
  if (has_loop(logits)) {
    const RowResults found = score_by_loop(logits, targets, 0, /*normalize=*/true, with_entropy);
    return {found.lse, found.targets, found.entropy, /*only_read=*/cap == 0};
  }
  logits = upcast(logits);
  RowScores scores;
  scores.lse = at::logsumexp(logits, 1);
  scores.log_probs = at_targets(logits, targets) - scores.lse;
  if (with_entropy) scores.entropy = entropy_of(logits, scores.lse);
  return scores;
}

ShardScores score_shard_rows(at::Tensor logits, const at::Tensor& targets, std::int64_t first_row,
                             double cap) {
  if (fused::supports_scoring(logits, targets))
    return fused::score_shard_rows(logits, targets, first_row, cap);
  logits = capped(logits, cap);
  if (has_loop(logits)) {
    const RowResults found =
        score_by_loop(logits, targets, first_row, /*normalize=*/false, /*with_entropy=*/false);
    return {found.lse, found.targets};
  }
  logits = upcast(logits);
  const ShardTargets own = shard_targets(targets, first_row, logits.size(1));
  return {at::logsumexp(logits, 1), at_targets(logits, own.columns).mul_(own.is_own)};
}

at::Tensor score_rows_backward(at::Tensor logits, const at::Tensor& targets, const at::Tensor& lse,
                               const at::Tensor& scale, std::optional<std::int64_t> first_row, double cap) {
  const std::int64_t first = first_row.value_or(0);
  if (fused::supports_scoring_backward(logits, targets, lse, scale)) {
    fused::score_rows_backward(logits, targets, lse, scale, first, cap);
    return logits;
  }
  logits = capped(logits, cap);
  const at::Tensor slope = cap > 0 ? 1 - (logits / cap).square_() : at::Tensor();  // derivative of the cap
  if (has_loop(logits)) {
    differentiate_by_loop(logits, targets, lse, scale, first);
  } else {
    const at::Tensor by_row = scale.unsqueeze(1);
    logits = upcast(logits);
    logits.sub_(lse.unsqueeze(1)).exp_().mul_(-by_row);
    const ShardTargets own = shard_targets(targets, first, logits.size(1));
    logits.scatter_add_(1, own.columns.unsqueeze(1), by_row * own.is_own.unsqueeze(1));
  }
  return slope.defined() ? logits.mul_(slope) : logits;
}

}  // namespace dpo::ops
