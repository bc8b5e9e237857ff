#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "plan/output.h"

namespace dpo::plan {
namespace {

constexpr std::size_t kWidth = 100;

// Adds ANSI colours, or nothing.
class Paint {
 public:
  explicit Paint(bool colours) : colours_(colours) {}
  std::string bold(const std::string& text) const { return wrap("1", text); }
  std::string verdict(Verdict verdict, const std::string& text) const {
    switch (verdict) {
      case Verdict::ok: return wrap("32", text);
      case Verdict::hint: return wrap("36", text);
      case Verdict::warning: return wrap("33", text);
      case Verdict::error: return wrap("31", text);
    }
    return text;
  }

 private:
  std::string wrap(const char* code, const std::string& text) const {
    return colours_ ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
  }
  bool colours_;
};

std::string rate(double per_second) {
  return per_second < 0.1 ? fmt::format("{:.2g}", per_second) : fmt::format("{:.1f}", per_second);
}

std::string precision_text(const Plan& plan) {
  const auto& model = plan.resolved.model;
  const config::Dtype computed = config::computed_dtype(plan.resolved);
  const std::string dtype = name_of(computed) + (plan.resolved.fp8 ? " with fp8 matmuls" : "");
  return computed == model.policy_dtype
             ? dtype
             : fmt::format("{} over {} weights", dtype, name_of(model.policy_dtype));
}

std::string devices_text(const Machine& machine) {
  std::string devices = fmt::format("{} x {}", machine.gpus, machine.device.name);
  if (machine.nodes > 1) devices = fmt::format("{} machines x {}", machine.nodes, devices);
  return devices + (machine.device.origin == FiguresOrigin::estimated ? " (estimated)" : "");
}

std::string trainer_text(const Plan& plan) {
  const std::string mesh = config::describe(plan.mesh);
  return name_of(plan.resolved.trainer) + (mesh.empty() ? "" : fmt::format(" ({})", mesh));
}

std::string reference_text(const Plan& plan) {
  return plan.reference == ReferenceMode::none ? "" : fmt::format(", reference {}", name_of(plan.reference));
}

// Describes how long gathered blocks stay; empty: each pass gathers them.
std::string reshard_text(const Plan& plan) {
  const config::Reshard reshard = plan.resolved.fsdp_reshard.value_or(config::Reshard::pass);
  const bool is_kept = plan.mesh.shard > 1 && reshard != config::Reshard::pass;
  return is_kept ? ", fsdp_reshard=" + name_of(reshard) : "";
}

// Describes the layers that are recomputed in the backward pass; empty: none.
std::string recomputed_text(const Plan& plan, const Inputs& in) {
  const std::int64_t count = plan.resolved.activation_checkpointing.count;
  return count == 0 ? "" : fmt::format(", {} of {} layers recomputed", count, in.shape.layers);
}

std::string parameters_text(const model::TensorTable& table) {
  const std::string all = short_count(table.count()) + " parameters";
  return table.active_count() == table.count()
             ? all
             : fmt::format("{}, {} active", all, short_count(table.active_count()));
}

std::string heading(const Plan& plan, const Inputs& in, const Paint& paint) {
  const config::RunConfig& run = plan.resolved;
  std::string out = paint.bold(fmt::format("Plan: loss={}, {}, data {}", name_of(run.loss.name),
                                           run.model.name_or_path, fmt::join(run.datasets, ", ")));
  const std::string facts = fmt::format("{} ({}), {}, {}, {}, {}{}{}{}", model::info_of(in.shape.family).name,
                                        parameters_text(*in.table), devices_text(in.machine),
                                        trainer_text(plan), precision_text(plan), name_of(run.optimizer),
                                        reference_text(plan), recomputed_text(plan, in), reshard_text(plan));
  out += "\n" + wrap_words(facts, 0, kWidth) + "\n";
  return out;
}

std::string rules_text(const Plan& plan, Verdict least, const Paint& paint, std::size_t width = kWidth) {
  constexpr std::size_t kIndent = 26;
  std::string out;
  for (const Finding& finding : plan.findings) {
    if (finding.verdict < least) continue;
    out += fmt::format("  {} {:<15} {}\n",
                       paint.verdict(finding.verdict, fmt::format("{:<7}", name_of(finding.verdict))),
                       finding.id, wrap_words(finding.message, kIndent, width));
    for (const Remedy& remedy : finding.remedies)
      out += fmt::format("{0}-> {1}\n{0}   {2}\n", std::string(kIndent, ' '),
                         fmt::join(remedy.overrides, " "), wrap_words(remedy.reason, kIndent + 3, width));
  }
  return out;
}

std::string place_of_memory(const Plan& plan) {
  if (!plan.on_cpu && plan.ranks_per_device == 1) return " per GPU";
  return plan.mesh.ranks() > 1 ? " per process" : "";
}

// Prints memory in GiB, or in MiB if GiB would be a row of zeros.
std::string memory_text(const Plan& plan, const Paint& paint) {
  const bool small = plan.memory.total() < kGib;
  const double unit = small ? kGib / 1024 : kGib;
  const int digits = small ? 1 : 2;
  std::string out =
      "\n" + paint.bold(fmt::format("Memory{}, {}", place_of_memory(plan), small ? "MiB" : "GiB")) + "\n";
  for (const MemoryPart& part : plan.memory.parts)
    if (part.bytes > 0) out += fmt::format("  {:<20} {:>8.{}f}\n", part.name, part.bytes / unit, digits);
  const char* verdict = plan.fits() ? "fits" : "does not fit";
  out += fmt::format("  {:<20} {:>8.{}f}  of {}: {}\n", "total", plan.memory.total() / unit, digits,
                     memory_size(plan.memory.available),
                     paint.verdict(plan.fits() ? Verdict::ok : Verdict::error, verdict));
  return out;
}

std::string evaluations_text(const Plan& plan, const Inputs& in) {
  const Timing& t = plan.timing;
  const double seconds = t.evaluation_hours * 3600;
  const std::string first =
      plan.resolved.do_first_eval ? "; one is before the first update (do_first_eval=false skips it)" : "";
  return fmt::format("{} of that: {} of {}, {} each{}", rough_duration(seconds),
                     plural(t.evaluations, "evaluation"),
                     plural(evaluation_of(in).examples, unit_of(plan.resolved.loss, in.lengths).name),
                     rough_duration(seconds / to_double(t.evaluations)), first);
}

std::string samples_text(const Plan& plan) {
  const Timing& t = plan.timing;
  const bool is_auto = plan.resolved.sample_during_eval == config::Sampling::automatic;
  if (t.samplings == 0)
    return is_auto ? "none: they would take more than 5 % of the run (sample_during_eval=true draws them)"
                   : "none: sample_during_eval=false";
  const bool has_reference = plan.reference != ReferenceMode::none;
  return fmt::format("{} of that: {} of up to {}, {} from the policy{}",
                     rough_duration(t.sampling_hours * 3600), plural(t.sampled.texts, "text"),
                     plural(t.sampled.tokens, "token"), plural(t.samplings - (has_reference ? 1 : 0), "time"),
                     has_reference ? " and once from the reference" : "");
}

std::string time_text(const Plan& plan, const Inputs& in, const Paint& paint) {
  const Timing& t = plan.timing;
  const std::string unit = unit_of(plan.resolved.loss, in.lengths).name;
  std::string out = "\n" + paint.bold("Time") + "\n";
  const auto line = [&out](const char* name, const std::string& text) {
    constexpr std::size_t kIndent = 23;
    out += fmt::format("  {:<{}}{}\n", name, kIndent - 2, wrap_words(text, kIndent, kWidth));
  };
  const std::string exchange =
      t.gradient_reduction > 0 ? fmt::format(", gradient reduction {}", exact_duration(t.gradient_reduction))
                               : "";
  line("update", fmt::format("{}: {} x {} of compute and communication{}, optimizer {}",
                             exact_duration(t.update), plan.resolved.gradient_accumulation_steps,
                             exact_duration(t.microbatch.elapsed), exchange, exact_duration(t.optimizer)));
  if (t.microbatch.communication > 0)
    line("per microbatch",
         fmt::format("compute {}, communication {} ({:.0f} % of compute)",
                     exact_duration(t.microbatch.compute), exact_duration(t.microbatch.communication),
                     100 * t.microbatch.communication / t.microbatch.compute));
  if (plan.mesh.data_ranks() > 1)
    line("balance", fmt::format("the slowest rank has {:.2f} times the mean work", t.slowest_rank));
  line("speed", fmt::format("{} {}s/s, {:.0f} tokens/s, MFU {:.0f} %", rate(t.examples_per_second), unit,
                            t.tokens_per_second, 100 * t.model_flops_utilization));
  const std::string evaluations =
      plan.resolved.eval_every ? plural(t.evaluations, "evaluation") : "no evaluation";
  line("run",
       fmt::format("{} over {}, {}, {}: {}", plural(t.updates, "update"), plural(t.examples, unit),
                   evaluations, plural(t.checkpoints, "checkpoint"), rough_duration(t.total_hours() * 3600)));
  if (t.evaluations > 0) line("evaluations", evaluations_text(plan, in));
  if (t.reference_hours > 0)
    line("reference scores",
         rough_duration(t.reference_hours * 3600) + " of that: computed once, before the first update");
  if (t.evaluations > 0) line("samples", samples_text(plan));
  // Energy or cost is 0 if the device's file does not have its power or price.
  std::vector<std::string> known;
  if (t.energy_kwh > 0)
    known.push_back(t.energy_kwh < 0.1 ? "less than 0.1 kWh" : fmt::format("{:.1f} kWh", t.energy_kwh));
  if (t.cost_usd > 0)
    known.push_back(t.cost_usd < 1 ? "less than 1 USD" : fmt::format("about {:.0f} USD", t.cost_usd));
  if (!known.empty()) line("energy and cost", fmt::format("{}", fmt::join(known, ", ")));
  return out;
}

// Describes what is trained, and from which weights.
std::string model_text(const Plan& plan, const Inputs& in, const RunPaths& paths) {
  const config::RunConfig& run = plan.resolved;
  std::string text = fmt::format("loss={}, {} ({})", name_of(run.loss.name), run.model.name_or_path,
                                 parameters_text(*in.table));
  if (in.adapter) text += fmt::format(", LoRA of {}", short_count(in.adapter->count()));
  if (run.adapter.base_dtype) text += " over " + name_of(*run.adapter.base_dtype);
  if (!paths.checkpoint.empty())
    text += ", resumed from " + paths.checkpoint;
  else if (run.model.archive)
    text += ", weights of " + *run.model.archive;
  return text + reference_text(plan);
}

std::string data_text(const Plan& plan, const Inputs& in) {
  const ExampleUnit unit = unit_of(plan.resolved.loss, in.lengths);
  const std::string names = fmt::format("{}", fmt::join(plan.resolved.datasets, ", "));
  if (!in.unmeasured.empty()) return names + ", not counted yet";
  return fmt::format("{}: {} of about {:.0f} tokens", names, plural(unit.in_epoch, unit.name),
                     plan.example.mean);
}

std::string needs_text(const Plan& plan, const Inputs& in, const RunPaths& paths) {
  const Timing& t = plan.timing;
  std::string text = fmt::format("{} of {}{}, about {}{}, ", memory_size(plan.memory.total()),
                                 memory_size(plan.memory.available), place_of_memory(plan),
                                 rough_duration(t.total_hours() * 3600),
                                 paths.checkpoint.empty() ? "" : " for the whole run");
  text += plan.resolved.eval_every
              ? fmt::format("{} of {}", plural(t.evaluations, "evaluation"),
                            plural(evaluation_of(in).examples, unit_of(plan.resolved.loss, in.lengths).name))
              : "no evaluation";
  if (!plan.resolved.debug)
    text += fmt::format(", {} of {}", plural(t.checkpoints, "checkpoint"), memory_size(plan.disk.checkpoint));
  return text;
}

std::string largest_text(const LargestModel& model, const Paint& paint) {
  const Plan& plan = model.fit.plan;
  const std::string& name = model.in.run.model.name_or_path;
  std::string out = "\n" + paint.bold(fmt::format("{} ({})", name, parameters_text(*model.in.table))) + "\n";
  const auto line = [&out](const char* what, const std::string& text) {
    constexpr std::size_t kIndent = 10;
    out += fmt::format("  {:<{}}{}\n", what, kIndent - 2, wrap_words(text, kIndent, kWidth));
  };
  line("trains", plan.resolved.adapter.name == config::Adapter::none ? "all weights" : "a LoRA adapter");
  line("needs", fmt::format("{} of {}{}", memory_size(plan.memory.total()),
                            memory_size(plan.memory.available), place_of_memory(plan)));
  line("speed",
       fmt::format("{} {}s/s, {} per update", rate(plan.timing.examples_per_second),
                   unit_of(plan.resolved.loss, model.in.lengths).name, exact_duration(plan.timing.update)));
  line("costs", model.fit.costs.empty() ? "time and rounding only" : model.fit.costs);
  line("add", fmt::format("model.name_or_path={} {}", name, fmt::join(model.fit.overrides, " ")));
  return out;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::hint: return "hint";
    case Verdict::warning: return "warning";
    case Verdict::error: return "error";
  }
  return "";
}

std::string_view name_of(ReferenceMode reference) {
  switch (reference) {
    case ReferenceMode::none: return "none";
    case ReferenceMode::live: return "live";
    case ReferenceMode::cached: return "cached";
  }
  return "";
}

std::string memory_to_text(const Plan& plan) { return memory_text(plan, Paint(/*colours=*/false)); }

std::string to_text(const Plan& plan, const Inputs& in, bool colours) {
  const Paint paint(colours);
  std::string out = heading(plan, in, paint);
  for (const std::string& note : in.machine.notes) out += wrap_words("note: " + note, 0, kWidth) + "\n";
  return out + "\n" + paint.bold("Rules") + "\n" + rules_text(plan, Verdict::ok, paint) +
         memory_text(plan, paint) + time_text(plan, in, paint);
}

std::string to_banner(const Plan& plan, const Inputs& in, const RunPaths& paths, const TextStyle& style) {
  const Paint paint(style.colours);
  std::string out;
  const auto line = [&](const char* name, const std::string& text) {
    constexpr std::size_t kIndent = 8;
    out += paint.bold(fmt::format("{:<{}}", name, kIndent)) + wrap_words(text, kIndent, style.width) + "\n";
  };
  line("train", model_text(plan, in, paths));
  line("data", data_text(plan, in));
  line("how", fmt::format("{} of {}, {}, {}, {}, {}{}{}", plural(plan.timing.updates, "update"),
                          plural(plan.resolved.batch_size, unit_of(plan.resolved.loss, in.lengths).name),
                          trainer_text(plan), devices_text(in.machine), precision_text(plan),
                          name_of(plan.resolved.optimizer), recomputed_text(plan, in), reshard_text(plan)));
  line("needs", needs_text(plan, in, paths));
  line("writes", plan.resolved.debug ? paths.folder + ", without checkpoints (debug=true)"
                                     : fmt::format("{}; Ctrl-C saves and stops, {} continues", paths.folder,
                                                   resume_command(paths.folder)));
  return out;
}

std::string warnings_to_text(const Plan& plan, const TextStyle& style) {
  return rules_text(plan, Verdict::warning, Paint(style.colours), style.width);
}

std::string to_text(const Fit& fit, const Plan& before) {
  const std::vector<std::string> errors = fit.errors();
  const std::string once_fixed =
      errors.empty()
          ? ""
          : fmt::format(", once {} {} fixed", fmt::join(errors, " and "), errors.size() == 1 ? "is" : "are");
  if (fit.overrides.empty()) return fmt::format("\nFastest that fits{}: this plan.\n", once_fixed);
  std::string out = fmt::format("\nFastest that fits{}: {} per update instead of {}; add\n  {}\n", once_fixed,
                                exact_duration(fit.plan.timing.update), exact_duration(before.timing.update),
                                fmt::join(fit.overrides, " "));
  if (!fit.costs.empty()) out += "  " + wrap_words("which costs: " + fit.costs, 2, kWidth) + "\n";
  return out;
}

std::string to_text(const std::vector<LargestModel>& models, const config::RunConfig& run,
                    const Machine& machine, bool colours) {
  const Paint paint(colours);
  const std::string examples = plural(run.batch_size, unit_of(run.loss, {}).name);
  std::string out = paint.bold(fmt::format("Largest models: loss={}, {}, batches of {}",
                                           name_of(run.loss.name), devices_text(machine), examples)) +
                    "\n";
  if (models.empty()) return out + "None of the models whose sizes are built in fits.\n";
  for (const LargestModel& model : models) out += largest_text(model, paint);
  const Inputs& in = models.front().in;
  std::string note = fmt::format("Lengths are those of {}", in.lengths.name);
  if (!in.unmeasured.empty())
    note += fmt::format(", since {} cannot be counted without a model (plan.lengths=FILE gives others)",
                        fmt::join(in.unmeasured, ", "));
  note +=
      ". Of the models whose sizes are built in; a way that reaches no larger one is left out. For any "
      "other model: dpo plan model.name_or_path=NAME ... --fit";
  return out + "\n" + wrap_words(note, 0, kWidth) + "\n";
}

}  // namespace dpo::plan
