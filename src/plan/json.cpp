#include <cmath>

#include <nlohmann/json.hpp>

#include "plan/output.h"

namespace dpo::plan {
namespace {

using json = nlohmann::ordered_json;

// Writes whole numbers without a fraction: 8, not 8.0.
json number(double value) {
  const double rounded = std::round(value);
  if (rounded == value && std::abs(value) < 1e15) return static_cast<std::int64_t>(rounded);
  return value;
}

json or_null(const std::optional<std::int64_t>& value) { return value ? json(*value) : json(); }
json or_null(const std::string& text) { return text.empty() ? json() : json(text); }

// Returns where the figures of a device come from.
std::string figures_of(const Device& device) {
  return device.origin == FiguresOrigin::estimated ? "estimated" : device.file;
}

// An unknown price or power is null, not 0.
json or_unknown(double value) { return value == 0 ? json() : json(value); }

json rules(const Plan& plan) {
  json list = json::array();
  for (const Finding& finding : plan.findings) {
    json remedies = json::array();
    for (const Remedy& remedy : finding.remedies)
      remedies.push_back({{"overrides", remedy.overrides}, {"reason", remedy.reason}});
    list.push_back({{"id", finding.id},
                    {"verdict", name_of(finding.verdict)},
                    {"message", finding.message},
                    {"remedies", remedies}});
  }
  return list;
}

json memory(const Memory& memory) {
  json parts = json::object();
  for (const MemoryPart& part : memory.parts) parts[part.name] = number(std::round(part.bytes));
  return {{"per_gpu_bytes", parts},
          {"total_bytes", number(std::round(memory.total()))},
          {"available_bytes", number(std::round(memory.available))}};
}

json time(const Timing& t) {
  return {{"step_seconds", t.update},
          {"gradient_reduction_seconds", t.gradient_reduction},
          {"optimizer_seconds", t.optimizer},
          {"microbatch_compute_seconds", t.microbatch.compute},
          {"microbatch_communication_seconds", t.microbatch.communication},
          {"microbatch_seconds", t.microbatch.elapsed},
          {"slowest_rank", t.slowest_rank},
          {"examples_per_second", t.examples_per_second},
          {"tokens_per_second", t.tokens_per_second},
          {"model_flops_utilization", t.model_flops_utilization},
          {"tokens_to_hide_communication", t.threshold.scale_well},
          {"tokens_to_beat_one_gpu", t.threshold.beat_one_gpu},
          {"examples", t.examples},
          {"updates", t.updates},
          {"evaluations", t.evaluations},
          {"training_hours", t.training_hours},
          {"evaluation_hours", t.evaluation_hours},
          {"reference_hours", t.reference_hours},
          {"sampled_texts", t.sampled.texts},
          {"sampling_hours", t.sampling_hours},
          {"checkpoints", t.checkpoints},
          {"checkpoint_hours", t.checkpoint_hours},
          {"total_hours", t.total_hours()},
          {"energy_kwh", or_unknown(t.energy_kwh)},
          {"cost_usd", or_unknown(t.cost_usd)}};
}

json resolved(const Plan& plan, const Inputs& in) {
  const config::RunConfig& run = plan.resolved;
  return {
      {"model", run.model.name_or_path},
      {"parameters", in.table->count()},
      {"active_parameters", in.table->active_count()},
      {"trained_parameters", in.trained().count()},
      {"loss", name_of(run.loss.name)},
      {"trainer", name_of(run.trainer)},
      {"device", in.machine.device.name},
      {"device_figures", figures_of(in.machine.device)},
      {"gpus", in.machine.gpus},
      {"nodes", in.machine.nodes},
      {"ranks", plan.mesh.ranks()},
      {"mesh", {{"replica", plan.mesh.replica}, {"shard", plan.mesh.shard}, {"tensor", plan.mesh.tensor}}},
      {"batch_size", run.batch_size},
      {"gradient_accumulation_steps", run.gradient_accumulation_steps},
      {"eval_batch_size", run.eval_batch_size},
      {"eval_every", or_null(run.eval_every)},
      {"save_every", or_null(run.save_every)},
      {"policy_dtype", name_of(run.model.policy_dtype)},
      {"compute_dtype", name_of(config::computed_dtype(run))},
      {"activation_checkpointing", run.activation_checkpointing.count > 0},
      {"recomputed_layers", run.activation_checkpointing.count},
      {"fsdp_reshard", name_of(run.fsdp_reshard)},
      {"optimizer", name_of(run.optimizer)},
      {"reference", name_of(plan.reference)},
      {"lengths", in.lengths.name}};
}

}  // namespace

std::string to_json(const Plan& plan, const Inputs& in, const std::optional<Fit>& fit) {
  json out;
  out["fits"] = plan.fits();
  out["examples_per_gpu"] = number(plan.examples_per_gpu);
  out["tokens_per_gpu"] = plan.tokens_per_gpu;
  out["rules"] = rules(plan);
  out["memory"] = memory(plan.memory);
  out["time"] = time(plan.timing);
  out["disk"] = {{"checkpoint_bytes", number(std::round(plan.disk.checkpoint))},
                 {"checkpoints", plan.disk.checkpoints},
                 {"total_bytes", number(std::round(plan.disk.total()))}};
  out["resolved"] = resolved(plan, in);
  if (!in.commits.empty()) out["commits"] = in.commits;
  if (!in.held_out_sha256.empty()) out["held_out_sha256"] = in.held_out_sha256;
  out["notes"] = in.machine.notes;
  if (fit)
    out["fit"] = {{"overrides", fit->overrides},
                  {"step_seconds", fit->plan.timing.update},
                  {"costs", or_null(fit->costs)},
                  {"errors", fit->errors()}};
  return out.dump(2) + "\n";
}

std::string to_json(const std::vector<LargestModel>& models) {
  json out = json::array();
  for (const LargestModel& model : models) {
    const Plan& plan = model.fit.plan;
    out.push_back({{"model", model.in.run.model.name_or_path},
                   {"parameters", model.in.table->count()},
                   {"adapter", name_of(plan.resolved.adapter.name)},
                   {"overrides", model.fit.overrides},
                   {"costs", or_null(model.fit.costs)},
                   {"memory", memory(plan.memory)},
                   {"time", time(plan.timing)}});
  }
  return json{{"largest", out}}.dump(2) + "\n";
}

}  // namespace dpo::plan
