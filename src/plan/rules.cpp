#include "plan/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "plan/reshard.h"

namespace dpo::plan {
namespace {

std::string counted(const Facts& f, double count) {
  const char* word = unit_of(f.run.loss, f.w.in.lengths).name;
  return fmt::format("{:.4g} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace

std::optional<Finding> accumulation(const Facts& f) {
  constexpr const char* id = "accumulation";
  if (f.run.gradient_accumulation_steps <= f.run.batch_size)
    return ok(id, fmt::format("gradient_accumulation_steps={}", f.run.gradient_accumulation_steps));
  return error(id, fmt::format("gradient_accumulation_steps={} is larger than batch_size={}: some "
                               "microbatches would be empty",
                               f.run.gradient_accumulation_steps, f.run.batch_size));
}

std::optional<Finding> batch_divides(const Facts& f) {
  constexpr const char* id = "batch-divides";
  const std::int64_t steps = f.run.gradient_accumulation_steps;
  if (steps > f.run.batch_size) return ok(id, "not checked: there are more accumulation steps than examples");
  const std::int64_t unit = steps * f.w.mesh.data_ranks();
  std::string parts = plural(steps, "accumulation step");
  if (f.w.mesh.data_ranks() > 1) parts += " x " + data_ranks_text(f);
  if (f.run.batch_size % unit == 0)
    return ok(id, fmt::format("batch_size={} divides evenly over {}", f.run.batch_size, parts));
  const Multiples near = nearest_multiples(f.run.batch_size, unit);
  return error(id, fmt::format("batch_size={} does not divide evenly over {} = {}; nearest that do: {}",
                               f.run.batch_size, parts, unit,
                               near.below > 0 ? fmt::format("{} and {}", near.below, near.above)
                                              : fmt::format("{}", near.above)));
}

std::optional<Finding> batch_per_gpu(const Facts& f) {
  constexpr const char* id = "batch-per-gpu";
  const double each = f.w.examples;
  const char* where = f.w.mesh.tensor == 1 ? device_word(f) : "group";
  const std::string formula = fmt::format("{} / ({} x {}) = {} per {} per microbatch", f.run.batch_size,
                                          plural(f.run.gradient_accumulation_steps, "accumulation step"),
                                          data_ranks_text(f), counted(f, each), where);
  const bool sharded = f.run.trainer == config::Trainer::Fsdp || f.w.mesh.shard > 1;
  if (!sharded && f.w.mesh.ranks() == 1)
    return ok(id, fmt::format("{} per microbatch; {} has no lower limit", counted(f, each),
                              name_of(f.run.trainer)));
  if (!sharded)
    return ok(id, fmt::format("{} per microbatch, on every {}; {} has no lower limit", counted(f, each),
                              device_word(f), name_of(f.run.trainer)));
  if (each >= to_double(kMinExamplesPerGpu))
    return ok(id,
              fmt::format("{} ({} needs {} or more)", formula, name_of(f.run.trainer), kMinExamplesPerGpu));
  return warning(
      id, fmt::format("{}; {} needs {} or more: every microbatch {}reduce-scatters all gradients. So little "
                      "computation cannot hide that, and the run may be slower than BasicTrainer on one GPU",
                      formula, name_of(f.run.trainer), kMinExamplesPerGpu,
                      keeps_model(f.w) ? "" : "gathers all parameters and "));
}

std::optional<Finding> tokens_per_gpu(const Facts& f) {
  constexpr const char* id = "tokens-per-gpu";
  const TokenThreshold& threshold = f.plan.timing.threshold;
  if (threshold.scale_well == 0) return std::nullopt;
  const std::string figures = fmt::format(
      "{:.0f} tokens per {} per microbatch; at {:.3g} GB/s, {:.0f} tokens would hide the communication and "
      "{:.0f} would beat a single {}",
      f.w.tokens, f.w.mesh.tensor == 1 ? device_word(f) : "group", shard_bus(f.w) / 1e9, threshold.scale_well,
      threshold.beat_one_gpu, device_word(f));
  if (f.w.tokens >= threshold.scale_well) return ok(id, figures);
  if (f.w.tokens >= threshold.beat_one_gpu) return hint(id, figures + ": part of the time is spent waiting");
  return warning(id, figures + fmt::format(": one {} alone would be faster", device_word(f)));
}

std::optional<Finding> heads_divide(const Facts& f) {
  constexpr const char* id = "tensor-split";
  const std::int64_t asked = f.w.mesh.tensor;
  if (asked == 1) return std::nullopt;
  const model::ModelShape& s = f.w.in.shape;
  if (const std::int64_t share = (s.vocabulary + asked - 1) / asked; share * (asked - 1) >= s.vocabulary)
    return error(id, fmt::format("a vocabulary of {} is too small for {} {}s: one would get none of it",
                                 s.vocabulary, asked, device_word(f)));
  if (divides_layers(s, asked))
    return ok(id, fmt::format("{} heads over {} {}s", s.heads, asked, device_word(f)));
  std::vector<std::int64_t> degrees;
  for (std::int64_t degree = 1; degree <= std::min(asked, s.heads); ++degree)
    if (divides_layers(s, degree)) degrees.push_back(degree);
  return error(
      id, fmt::format("{} attention heads ({} KV heads) and an MLP of {} do not divide evenly over {} {}s; "
                      "degrees that do: {}",
                      s.heads, s.kv_heads, s.ffn, asked, device_word(f), fmt::join(degrees, ", ")));
}

std::optional<Finding> tensor_links(const Facts& f) {
  constexpr const char* id = "tensor-links";
  if (f.w.mesh.tensor == 1 || f.machine.nodes == 1) return std::nullopt;
  if (f.machine.is_within_machine(f.w.mesh.tensor))
    return ok(id, fmt::format("tensor-parallel groups of {} within a machine", f.w.mesh.tensor));
  return hint(id, fmt::format("tensor-parallel groups of {} {}s span machines of {}: they exchange hidden "
                              "states four times per layer, which cannot overlap with compute",
                              f.w.mesh.tensor, device_word(f), f.machine.gpus));
}

std::optional<Finding> optimizer_split(const Facts& f) {
  constexpr const char* id = "optimizer-split";
  if (f.run.optimizer != config::Optimizer::Adafactor || f.w.mesh.shard * f.w.mesh.tensor == 1)
    return std::nullopt;
  return error(id, fmt::format("optimizer=Adafactor needs whole matrices, but the mesh splits them ({}); use "
                               "BasicTrainer or AdamW",
                               config::describe(f.w.mesh)));
}

const char* device_word(const Facts& f) {
  return f.machine.device.is_cpu || f.w.ranks_per_device() > 1 ? "rank" : "GPU";
}

std::string data_ranks_text(const Facts& f) {
  const config::MeshShape& mesh = f.w.mesh;
  if (mesh.tensor == 1) return plural(mesh.data_ranks(), device_word(f));
  return fmt::format("{} of {}", plural(mesh.data_ranks(), "group"), plural(mesh.tensor, device_word(f)));
}

bool divides_layers(const model::ModelShape& shape, std::int64_t degree) {
  return shape.heads % degree == 0 && shape.kv_heads % degree == 0 && shape.ffn % degree == 0;
}

Multiples nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return {below, below == value ? value : below + unit};
}

std::vector<Finding> check_rules(const Workload& w, const Plan& plan) {
  const Facts facts{w, plan, w.in.run, w.machine};
  std::vector<Finding> findings;
  for (Rule* const rule : {full_batch,    batch_per_gpu, tokens_per_gpu,  batch_divides,   accumulation,
                           heads_divide,  tensor_links,  optimizer_split, unused_gpus,     precision,
                           fp8,           spread,        idle_gpus,       memory,          gradients,
                           offload,       disk,          host_memory,     eval_every,      save_every,
                           best_metric,   eval_batch,    prompt_room,     context,         loss_scale,
                           adapter,       base_dtype,    experts,         reference_model, mismatched,
                           label_balance, lengths,       truncation,      warmup,          known_settings})
    if (std::optional<Finding> finding = rule(facts)) findings.push_back(std::move(*finding));
  if (w.in.run.plan.strict)
    for (Finding& finding : findings)
      if (finding.verdict == Verdict::warning) finding.verdict = Verdict::error;
  return findings;
}

}  // namespace dpo::plan
