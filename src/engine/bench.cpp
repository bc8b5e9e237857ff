#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "engine/bench_run.h"
#include "engine/ranks.h"
#include "engine/run_commands.h"
#include "run/bench.h"

namespace dpo::engine {
namespace {

nlohmann::ordered_json as_json(const run::Profile& profile) {
  const auto list = [](const std::vector<run::ProfilePart>& parts) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const run::ProfilePart& part : parts)
      rows.push_back({{"name", part.name}, {"seconds", part.seconds}, {"calls", part.calls}});
    return rows;
  };
  return {{"update_seconds", profile.update},
          {"idle_seconds", profile.idle},
          {"parts", list(profile.parts)},
          {"calls", list(profile.calls)}};
}

// Returns the least seconds that a part of the update takes according to the plan, or 0 if unknown.
double least_seconds(const plan::Timing& timing, const std::string& part) {
  if (part == "matmuls") return timing.least_matmuls;
  if (part == "attention") return timing.least_attention;
  return part == "optimizer" ? timing.optimizer : 0;
}

void print_profile(const run::Profile& profile, const plan::Timing& timing) {
  const auto row = [&](const run::ProfilePart& part) {
    const double least = least_seconds(timing, part.name);
    fmt::print("{:>10.2f} ms {:>5.1f} % {:>7.0f}  {}  {}\n", 1e3 * part.seconds,
               100 * part.seconds / profile.update, part.calls,
               least > 0 ? fmt::format("{:>8.2f} ms", 1e3 * least) : std::string(11, ' '), part.name);
  };
  fmt::print("\nAn update while it was recorded: {:.1f} ms\n", 1e3 * profile.update);
  fmt::print("         time            calls      at peak  part\n");
  for (const run::ProfilePart& part : profile.parts) row(part);
  row({profile.parts.empty() ? "outside LibTorch's operators"
                             : "idle: waiting for the host, or for other ranks",
       profile.idle, 0});
  fmt::print("\nMost expensive kernels or operators\n");
  for (const run::ProfilePart& part : profile.calls) row(part);
}

void print_result(const run::BenchResult& r, const plan::Plan& plan, bool json) {
  if (json) {
    nlohmann::ordered_json report = {
        {"pairs_per_second", r.pairs_per_second},
        {"tokens_per_second", r.tokens_per_second},
        {"model_flops_utilization", r.model_flops_utilization},
        {"peak_gib", static_cast<double>(r.peak_bytes) / kGib},
        {"seconds", r.seconds},
        {"planned", {{"seconds", r.predicted_seconds}, {"gib", r.predicted_bytes / kGib}}}};
    if (r.profile) report["profile"] = as_json(*r.profile);
    fmt::print("{}\n", report.dump());
    return;
  }
  const double measured = static_cast<double>(plan.resolved.batch_size) / r.pairs_per_second;
  fmt::print("{:.1f} examples/s, {:.0f} tokens/s, MFU {:.0f} %\n", r.pairs_per_second, r.tokens_per_second,
             100 * r.model_flops_utilization);
  fmt::print("update  {:8.3f} s   planned {:8.3f} s\n", measured, r.predicted_seconds);
  fmt::print("memory  {:8.2f} GiB planned {:8.2f} GiB\n", static_cast<double>(r.peak_bytes) / kGib,
             r.predicted_bytes / kGib);
  if (r.profile) print_profile(*r.profile, plan.timing);
}

}  // namespace

int run_bench_train(const commands::BenchTrainArguments& arguments) {
  if (!arguments.as.empty()) return rehearse_training(arguments);
  const std::string command =
      fmt::format("dpo bench train --updates {}{}", arguments.updates, arguments.profile ? " --profile" : "");
  return on_ranks(command, arguments.request, [&](const config::Resolved& asked, const comm::World& world) {
    const bool first = world.all->rank() == 0;
    const PlannedBench planned(bench_run(asked, world), machine_of(world), first);
    planned.run([&] {
      run::Bench bench(planned.plan, planned.in, run::bench_mesh(planned.plan.resolved, world));
      run::BenchResult result = bench.measure(arguments.updates);
      if (arguments.profile) result.profile = bench.profile(arguments.updates);
      if (first) print_result(result, planned.plan, arguments.json);
    });
    return 0;
  });
}

}  // namespace dpo::engine
