#include "plan/fp8.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/number_formats.h"
#include "plan/rules.h"
#include "plan/savings.h"

namespace dpo::plan {
namespace {

using model::Block;
using model::BlockKind;
using model::TensorInfo;

// Reasons why a run cannot be computed in FP8 and is rejected.
enum class Obstacle { none, device, experts, base_dtype, tensor_parallel, policy_dtype, reference_dtype };

bool has_other_policy(const config::RunConfig& run) {
  return config::computed_dtype(run) != config::Dtype::bfloat16;
}
bool has_other_reference(const config::RunConfig& run) {
  return uses_reference(run.loss) && config::reference_dtype(run) != config::Dtype::bfloat16;
}

// Returns the first obstacle to FP8. Those that no setting fixes come first.
Obstacle obstacle_to_fp8(const Workload& w) {
  const config::RunConfig& run = w.in.run;
  const Device& device = w.machine.device;
  if (!device.is_cpu && device.fp8_flops == 0) return Obstacle::device;
  if (w.in.shape.experts > 0) return Obstacle::experts;
  if (run.adapter.base_dtype) return Obstacle::base_dtype;
  if (w.mesh.tensor > 1) return Obstacle::tensor_parallel;
  if (has_other_policy(run)) return Obstacle::policy_dtype;
  return has_other_reference(run) ? Obstacle::reference_dtype : Obstacle::none;
}

// Returns the changes with which the run could be computed in FP8, if there are any, and the change that
// turns FP8 off.
std::vector<Remedy> remedies_of(const Workload& w) {
  const config::RunConfig& run = w.in.run;
  Overrides changes;
  std::string reason;
  if (w.mesh.tensor > 1) {
    changes = mesh_change(run, config::Trainer::Fsdp, {});
    reason = "sharding keeps rows whole";
  }
  if (has_other_policy(run)) changes.push_back("model.fsdp_policy_mp=bfloat16");
  if (run.model.reference_dtype && has_other_reference(run)) changes.push_back("model.reference_dtype=null");
  if (has_other_policy(run) || has_other_reference(run))
    reason += std::string(reason.empty() ? "" : ", ") + "bfloat16, which matmuls in 8 bits start from";
  std::vector<Remedy> remedies;
  if (!changes.empty() && !w.machine.device.is_cpu) remedies.push_back({std::move(changes), reason});
  remedies.push_back({{"fp8=false"}, "matmuls in the dtype of the run"});
  return remedies;
}

std::string text_of(Obstacle obstacle, const Workload& w) {
  const config::RunConfig& run = w.in.run;
  constexpr const char* kDtype = "rounds bfloat16 to 8 bits, but the {} is computed in {}";
  switch (obstacle) {
    case Obstacle::none: return "";
    case Obstacle::device:
      return fmt::format(
          "needs a GPU of compute capability 8.9 (Ada, Hopper) or newer; {} has no matmuls in 8 bits (its "
          "figures have no fp8_tflops)",
          w.machine.device.name);
    case Obstacle::experts: return "is for dense models: matmuls with experts have no 8-bit form here";
    case Obstacle::base_dtype:
      return fmt::format("needs frozen matrices in bfloat16, but adapter.base_dtype={} rounds them already",
                         name_of(*run.adapter.base_dtype));
    case Obstacle::tensor_parallel:
      return "does not work with tensor parallelism: the scale of a row would depend on the number of ranks";
    case Obstacle::policy_dtype: return fmt::format(kDtype, "policy", name_of(config::computed_dtype(run)));
    case Obstacle::reference_dtype:
      return fmt::format(kDtype, "reference", name_of(config::reference_dtype(run)));
  }
  return "";
}

// True if a tensor's matmuls are in FP8. A run that is rejected is planned without FP8.
bool is_in_fp8(const Workload& w, const Block& block, const TensorInfo& tensor) {
  return w.in.run.fp8 && block.kind == BlockKind::layer && tensor.is_linear && tensor.shape.size() == 2 &&
         tensor.shape[0] % kFp8Multiple == 0 && tensor.shape[1] % kFp8Multiple == 0 &&
         obstacle_to_fp8(w) == Obstacle::none;
}

// Return the elements of a token that a matrix reads, and those that it writes.
double inputs_of_matrix(const TensorInfo& matrix) {
  return to_double(matrix.shape[matrix.transposed ? 0 : 1]);
}
double outputs_of_matrix(const TensorInfo& matrix) {
  return to_double(matrix.shape[matrix.transposed ? 1 : 0]);
}

}  // namespace

double fp8_parameters(const Workload& w, const Block& block) {
  double sum = 0;
  for (const TensorInfo& tensor : block.tensors)
    if (is_in_fp8(w, block, tensor)) sum += to_double(tensor.count());
  return sum;
}

// Published FP8 matmuls reach at best 1.8 times the rate of bfloat16, where the peak is twice as high.
double fp8_matmul_flops(const Device& device) {
  constexpr double kShare = 0.8;  // of the rate that would be in proportion to the peak
  return device.fp8_flops * kShare * device.matmul_flops(/*bf16=*/true) / device.bf16_flops;
}

// Rows are read once and written in 8 bits; for scales of columns a weight is read twice.
double quantizing_seconds(const Workload& w, const Block& block, bool backward) {
  if (w.machine.device.is_cpu) return 0;
  const double weights = to_double(w.bytes.weights);
  double bytes = 0;
  for (const TensorInfo& tensor : block.tensors) {
    if (!is_in_fp8(w, block, tensor)) continue;
    bytes += backward ? w.tokens * outputs_of_matrix(tensor) * (weights + 1) +
                            to_double(tensor.count()) * (2 * weights + 1)
                      : (w.tokens * inputs_of_matrix(tensor) + to_double(tensor.count())) * (weights + 1);
  }
  return bytes / w.machine.device.memory_bandwidth;
}

// A CPU has float32 copies of both operands, twice at first, and of the result.
double fp8_operand_bytes(const Workload& w) {
  const double each = w.machine.device.is_cpu ? 9 : 1, result = w.machine.device.is_cpu ? 4 : 0;
  double most = 0;
  for (const Block& block : w.in.table->blocks)
    for (const TensorInfo& tensor : block.tensors)
      if (is_in_fp8(w, block, tensor)) {
        const double in = inputs_of_matrix(tensor), out = outputs_of_matrix(tensor);
        most = std::max(most, each * (w.peak_tokens * std::max(in, out) + in * out) +
                                  result * w.peak_tokens * std::min(in, out));
      }
  return most;
}

std::optional<Finding> fp8(const Facts& f) {
  constexpr const char* id = "fp8";
  if (!f.run.fp8) return std::nullopt;
  if (const Obstacle obstacle = obstacle_to_fp8(f.w); obstacle != Obstacle::none) {
    Finding finding = error(id, "fp8=true " + text_of(obstacle, f.w));
    finding.remedies = remedies_of(f.w);
    return finding;
  }
  double parameters = 0, all = 0;
  for (const Block& block : f.w.in.table->blocks) {
    parameters += fp8_parameters(f.w, block);
    all += block.kind == BlockKind::layer ? to_double(block.matmul_count()) : 0;
  }
  if (parameters == 0)
    return warning(id, "fp8=true changes nothing: 16 does not divide the sizes of this model's matrices");
  if (f.machine.device.is_cpu)
    return hint(id, "fp8=true is for GPUs: a CPU rounds to 8 bits and computes in float32, which is slower");
  const bool is_measured = f.machine.device.name == "h200";  // docs/benchmarks.md
  return ok(id, fmt::format("{:.3g} % of the layers' parameters are multiplied in 8-bit floats{}",
                            100 * parameters / all,
                            is_measured ? "; updates of two models were 1.2 times as fast"
                                        : "; its time was measured on an H200 only"));
}

}  // namespace dpo::plan
