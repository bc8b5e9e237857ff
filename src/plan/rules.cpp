#include "plan/rules.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "plan/rule_facts.h"
#include "plan/units.h"

namespace dpo::plan {
namespace {

std::string counted(const Facts& f, double count) {
  const char* word = unit_of(f.run.loss, f.c.in.lengths).name;
  return fmt::format("{:.4g} {}{}", count, word, count == 1 ? "" : "s");
}

std::optional<Finding> accumulation(const Facts& f) {
  constexpr const char* id = "accumulation";
  if (f.run.gradient_accumulation_steps <= f.run.batch_size)
    return ok(id, fmt::format("gradient_accumulation_steps={}", f.run.gradient_accumulation_steps));
  Finding finding = error(id, fmt::format("gradient_accumulation_steps={} is larger than batch_size={}: some "
                                          "microbatches would be empty",
                                          f.run.gradient_accumulation_steps, f.run.batch_size));
  finding.remedies.push_back({{"gradient_accumulation_steps=1"}, "the whole batch at once"});
  return finding;
}

std::optional<Finding> batch_divides(const Facts& f) {
  constexpr const char* id = "batch-divides";
  const std::int64_t steps = f.run.gradient_accumulation_steps;
  if (steps > f.run.batch_size) return ok(id, "not looked at while accumulation is larger than the batch");
  const std::int64_t unit = steps * f.c.mesh.data_ranks();
  const std::string parts = f.c.mesh.data_ranks() == 1
                                ? fmt::format("{} accumulation step{}", steps, steps == 1 ? "" : "s")
                                : fmt::format("{} accumulation steps x {}", steps, data_ranks_text(f));
  if (f.run.batch_size % unit == 0)
    return ok(id, fmt::format("batch_size={} divides over {}", f.run.batch_size, parts));
  const Multiples near = nearest_multiples(f.run.batch_size, unit);
  Finding finding =
      error(id, fmt::format("batch_size={} does not divide over {} = {}; the nearest that do: {}",
                            f.run.batch_size, parts, unit,
                            near.below > 0 ? fmt::format("{} and {}", near.below, near.above)
                                           : fmt::format("{}", near.above)));
  for (const std::int64_t size : {near.below, near.above})
    if (size > 0)
      finding.remedies.push_back({{fmt::format("batch_size={}", size)}, "a batch that divides evenly"});
  return finding;
}

std::optional<Finding> batch_per_gpu(const Facts& f) {
  constexpr const char* id = "batch-per-gpu";
  const double each = f.c.examples;
  const char* where = f.c.mesh.tensor == 1 ? device_word(f) : "group";
  const std::string formula =
      fmt::format("{} / ({} accumulation steps x {}) = {} per {} and microbatch", f.run.batch_size,
                  f.run.gradient_accumulation_steps, data_ranks_text(f), counted(f, each), where);
  const bool sharded = f.run.trainer == "FSDPTrainer" || f.c.mesh.shard > 1;
  if (!sharded && f.c.mesh.ranks() == 1)
    return ok(id, fmt::format("{} per microbatch; {} has no lower limit", counted(f, each), f.run.trainer));
  if (!sharded)
    return ok(id, fmt::format("{} per microbatch, on every {}; {} has no lower limit", counted(f, each),
                              device_word(f), f.run.trainer));
  if (each >= to_double(kExamplesPerGpu))
    return ok(id, fmt::format("{} ({}: 2 or more)", formula, f.run.trainer));
  return warning(
      id, fmt::format("{}; {} wants 2 or more: every microbatch gathers all parameters and scatters "
                      "all gradients, and with so little to compute in between this costs more than the "
                      "parallelism gives, so the run can be slower than BasicTrainer on one GPU",
                      formula, f.run.trainer));
}

std::optional<Finding> tokens_per_gpu(const Facts& f) {
  constexpr const char* id = "tokens-per-gpu";
  const TokenThreshold& threshold = f.plan.timing.threshold;
  if (threshold.scale_well == 0) return std::nullopt;
  const std::string figures = fmt::format(
      "{:.0f} tokens per {} and microbatch; {} over {:.3g} GB/s hides its "
      "communication from {:.0f}, beats a single {} from {:.0f}",
      f.c.tokens, f.c.mesh.tensor == 1 ? device_word(f) : "group", f.machine.device.name,
      f.machine.bus(f.c.mesh.shard * f.c.mesh.tensor) / 1e9, threshold.scale_well, device_word(f),
      threshold.beat_one_gpu);
  if (f.c.tokens >= threshold.scale_well) return ok(id, figures);
  if (f.c.tokens >= threshold.beat_one_gpu) return hint(id, figures + ": part of the time goes into waiting");
  return warning(id, figures + fmt::format(": one {} alone would be faster", device_word(f)));
}

std::optional<Finding> prompt_room(const Facts& f) {
  constexpr const char* id = "prompt-room";
  if (f.run.max_prompt_length < f.run.max_length)
    return ok(id, fmt::format("max_length={}, of them at most {} for a long prompt", f.run.max_length,
                              f.run.max_prompt_length));
  Finding finding =
      error(id, fmt::format("max_prompt_length={} leaves no room for a response within max_length={}",
                            f.run.max_prompt_length, f.run.max_length));
  const std::int64_t half = f.run.max_length / 2;
  if (half > 0)
    finding.remedies.push_back({{fmt::format("max_prompt_length={}", half)}, "half for the prompt"});
  return finding;
}

std::optional<Finding> context(const Facts& f) {
  constexpr const char* id = "context";
  const std::int64_t context = f.c.in.shape.context;
  if (f.run.max_length <= context) return ok(id, fmt::format("the model's context is {}", context));
  Finding finding = error(
      id, fmt::format("max_length={} is more than the {} tokens that the model computes: its positions, "
                      "or the window of its attention, end there; max_length={} is the most",
                      f.run.max_length, context, context));
  std::vector<std::string> overrides = {fmt::format("max_length={}", context)};
  if (f.run.max_prompt_length >= context)
    overrides.push_back(fmt::format("max_prompt_length={}", context / 2));
  finding.remedies.push_back({overrides, "the whole context of the model"});
  return finding;
}

std::optional<Finding> loss_scale(const Facts& f) {
  constexpr const char* id = "float16";
  const config::ModelConfig& model = f.run.model;
  if (model.fsdp_policy_mp.value_or(model.policy_dtype) != "float16" && model.policy_dtype != "float16")
    return std::nullopt;
  return error(id,
               "float16 cannot hold the small gradients of a policy without scaling the loss, which dpo does "
               "not do; bfloat16 needs as much memory and no scaling (model.reference_dtype may be float16)");
}

std::optional<Finding> reference_model(const Facts& f) {
  constexpr const char* id = "reference";
  if (!is_preference(f.run.loss)) return ok(id, "SFT needs no reference");
  if (!needs_reference(f.run.loss)) return ok(id, "reference-free loss");
  if (f.run.reference == "cached" && !can_cache(f.run.loss)) {
    Finding finding =
        error(id, fmt::format("reference=cached: loss={} also scores prompts with the responses of "
                              "other examples, which no cache can hold",
                              f.run.loss.name));
    finding.remedies.push_back({{"reference=live"}, "the reference beside the policy"});
    return finding;
  }
  if (!f.run.model.archive)
    return warning(id,
                   fmt::format("no model.archive: policy and reference both start from {} itself; preference "
                               "training expects weights that were fine-tuned on the same data first "
                               "(loss=sft, then model.archive=RUN/LATEST)",
                               f.run.model.name_or_path));
  if (f.c.in.surroundings.archive_exists == false)
    return warning(
        id, fmt::format("model.archive={} does not exist here; the run will need it for policy and reference",
                        *f.run.model.archive));
  return ok(id, fmt::format("policy and reference start from {}", *f.run.model.archive));
}

std::optional<Finding> heads_divide(const Facts& f) {
  constexpr const char* id = "tensor-split";
  const std::int64_t asked = f.c.mesh.tensor;
  if (asked == 1) return std::nullopt;
  const model::Shape& s = f.c.in.shape;
  if (const std::int64_t share = (s.vocabulary + asked - 1) / asked; share * (asked - 1) >= s.vocabulary)
    return error(id, fmt::format("a vocabulary of {} leaves one of {} {}s without any of it", s.vocabulary,
                                 asked, device_word(f)));
  if (divides_layers(s, asked))
    return ok(id, fmt::format("{} heads over {} {}s", s.heads, asked, device_word(f)));
  std::vector<std::int64_t> degrees;
  for (std::int64_t degree = 1; degree <= std::min(asked, s.heads); ++degree)
    if (divides_layers(s, degree)) degrees.push_back(degree);
  return error(
      id,
      fmt::format("{} attention heads ({} of keys and values) and an MLP of {} do not divide over {} {}s; "
                  "degrees that do: {}",
                  s.heads, s.kv_heads, s.ffn, asked, device_word(f), fmt::join(degrees, ", ")));
}

std::optional<Finding> tensor_links(const Facts& f) {
  constexpr const char* id = "tensor-links";
  if (f.c.mesh.tensor == 1 || f.machine.nodes == 1) return std::nullopt;
  if (f.machine.bus(f.c.mesh.tensor) == f.machine.device.link)
    return ok(id, fmt::format("groups of {} within a machine", f.c.mesh.tensor));
  return hint(id, fmt::format("groups of {} {}s that split each layer cross machines of {}: they exchange "
                              "hidden states four times a layer, and nothing hides it",
                              f.c.mesh.tensor, device_word(f), f.machine.gpus));
}

std::optional<Finding> optimizer_split(const Facts& f) {
  constexpr const char* id = "optimizer-split";
  if (f.run.optimizer != "Adafactor" || f.c.mesh.shard * f.c.mesh.tensor == 1) return std::nullopt;
  return error(id,
               fmt::format("optimizer=Adafactor needs whole matrices, and {} divide them: BasicTrainer, or "
                           "AdamW",
                           config::describe(f.c.mesh)));
}

std::optional<Finding> spread(const Facts& f) {
  constexpr const char* id = "spread";
  if (f.c.spread == 1) return std::nullopt;
  if (f.machine.nodes > 1)
    return error(id, fmt::format("BasicTrainer is one process: it cannot use {} machines", f.machine.nodes));
  return hint(
      id,
      fmt::format("BasicTrainer spreads the layers over {} GPUs for their memory; they take turns, so the "
                  "speed is that of one (FSDPTrainer uses them all)",
                  f.c.spread));
}

std::optional<Finding> idle_gpus(const Facts& f) {
  constexpr const char* id = "idle-gpus";
  const std::int64_t all = f.c.in.machine.gpus * f.c.in.machine.nodes;
  if (f.run.trainer == "BasicTrainer" || f.machine.device.is_cpu || f.c.mesh.ranks() >= all)
    return std::nullopt;
  return hint(
      id, fmt::format("{} on {} of {} GPUs: the others stay idle; mesh.shard=null and mesh.tensor=null take "
                      "what the other keys leave",
                      plural(f.c.mesh.ranks(), "rank"), f.c.mesh.ranks(), all));
}

std::optional<Finding> memory(const Facts& f) {
  constexpr const char* id = "memory";
  const std::string total = memory_size(f.plan.memory.total());
  const std::string available = memory_size(f.plan.memory.available);
  if (f.plan.memory.fits()) return ok(id, fmt::format("{} of {}", total, available));
  const std::string place = !f.machine.device.is_cpu ? "on each " + f.machine.device.name
                            : f.c.mesh.ranks() > 1   ? "for each process"
                                                     : "on this machine";
  return error(id, fmt::format("{} are needed {}, {} are there", total, place, available));
}

}  // namespace

const char* device_word(const Facts& f) { return f.machine.device.is_cpu ? "rank" : "GPU"; }

std::string data_ranks_text(const Facts& f) {
  const config::MeshShape& mesh = f.c.mesh;
  if (mesh.tensor == 1)
    return fmt::format("{} {}{}", mesh.data_ranks(), device_word(f), mesh.data_ranks() == 1 ? "" : "s");
  return fmt::format("{} group{} of {} {}s", mesh.data_ranks(), mesh.data_ranks() == 1 ? "" : "s",
                     mesh.tensor, device_word(f));
}

bool divides_layers(const model::Shape& shape, std::int64_t degree) {
  return shape.heads % degree == 0 && shape.kv_heads % degree == 0 && shape.ffn % degree == 0;
}

Multiples nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return {below, below == value ? value : below + unit};
}

std::vector<Finding> check_rules(const Case& c, const Plan& plan) {
  const Facts facts{c, plan, c.in.run, c.machine};
  using Rule = std::optional<Finding> (*)(const Facts&);  // nothing: the rule has no say here
  std::vector<Finding> findings;
  for (const Rule rule : {batch_per_gpu, tokens_per_gpu,  batch_divides, accumulation, heads_divide,
                          tensor_links,  optimizer_split, unused_gpus,   precision,    spread,
                          idle_gpus,     memory,          disk,          host_memory,  eval_every,
                          save_every,    best_metric,     eval_batch,    prompt_room,  context,
                          loss_scale,    reference_model, mismatched,    lengths,      warmup,
                          known_settings})
    if (std::optional<Finding> finding = rule(facts)) findings.push_back(std::move(*finding));
  if (c.in.run.plan.strict)
    for (Finding& finding : findings)
      if (finding.verdict == Verdict::warning) finding.verdict = Verdict::error;
  return findings;
}

}  // namespace dpo::plan
