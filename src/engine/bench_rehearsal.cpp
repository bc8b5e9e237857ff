#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quantity.h"
#include "comm/launch.h"
#include "commands/command.h"
#include "config/mesh.h"
#include "engine/bench_run.h"
#include "engine/ranks.h"
#include "ops/devices.h"
#include "run/rehearsal.h"
#include "train/events.h"

namespace dpo::engine {
namespace {

// A rehearsal with one batch size.
struct Row {
  plan::Plan plan;
  run::RehearsalResult result;
};

void refuse_launched() {
  const comm::Launch launch = comm::read_launch(comm::this_environment());
  if (launch.size > 1)
    throw UserError(fmt::format(
        "--as rehearses one rank in one process, but {} processes were started; run it without a launcher",
        launch.size));
}

// Returns the machines of the rehearsed run, with one rank on every GPU.
plan::Machine rehearsed_machines(plan::MachineRequest request, const config::RunConfig& run) {
  const plan::Machine machines = plan::find_machine(request);
  constexpr std::int64_t kMost = 1'000'000;
  if (machines.gpus > kMost / machines.nodes)
    throw UserError(fmt::format("--as has {} machines of {} GPUs, expected at most {} GPUs in all",
                                machines.nodes, machines.gpus, kMost));
  request.ranks = machines.gpus * machines.nodes;
  request.ranks_here = machines.gpus;
  config::mesh_of(run, *request.ranks);  // reports contradictions
  return plan::find_machine(request);
}

// Returns a note if this machine's device is not the one that the run is planned for, or "".
std::string note_about_device(const plan::Device& planned) {
  const std::vector<Gpu> gpus = list_gpus();
  const plan::Device here =
      gpus.empty() ? plan::device_of(hardware::find_processor()) : plan::device_of(gpus.front());
  if (here.name == planned.name || (here.is_cpu && planned.is_cpu) ||
      planned.origin == plan::FiguresOrigin::own)
    return "";
  return fmt::format("this machine's {} computes in place of the planned {}",
                     gpus.empty() ? "CPU" : gpus.front().name, planned.name);
}

// Returns the run with each of the batch sizes to rehearse, from the smallest on: on a CPU, the peak of
// memory is the process's.
std::vector<config::RunConfig> runs_of(const commands::BenchTrainArguments& arguments,
                                       const config::RunConfig& run, const config::MeshShape& mesh) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t pairs : arguments.pairs_per_gpu)
    sizes.push_back(pairs * run.gradient_accumulation_steps * mesh.data_ranks());
  if (sizes.empty()) sizes.push_back(run.batch_size);
  std::ranges::sort(sizes);
  std::vector<config::RunConfig> runs;
  for (const std::int64_t size : sizes) {
    runs.push_back(run);
    runs.back().batch_size = size;
  }
  return runs;
}

double gigabytes(double bytes) { return bytes / 1e9; }

nlohmann::ordered_json row_json(const Row& row) {
  const run::BenchResult& bench = row.result.bench;
  return {{"examples_per_gpu", row.plan.examples_per_gpu},
          {"batch_size", row.plan.resolved.batch_size},
          {"update_seconds", bench.mean_seconds()},
          {"instant_update_seconds", row.result.instant.mean_seconds()},
          {"communication_seconds", row.result.on_the_wires},
          {"hidden", row.result.hidden()},
          {"peak_gib", static_cast<double>(bench.peak_bytes) / kGib},
          {"pairs_per_second", bench.pairs_per_second},
          {"pairs_per_second_per_gpu", bench.pairs_per_second / static_cast<double>(row.plan.mesh.ranks())},
          {"tokens_per_second", bench.tokens_per_second},
          {"model_flops_utilization", bench.model_flops_utilization},
          {"seconds", bench.seconds},
          {"instant_seconds", row.result.instant.seconds},
          {"planned",
           {{"update_seconds", row.plan.timing.update},
            {"gib", row.plan.memory.tensors() / kGib},
            {"fits", row.plan.fits()}}}};
}

void print_as_json(const std::string& machines, const plan::Device& device, const std::vector<Row>& rows) {
  const config::MeshShape& mesh = rows.front().plan.mesh;
  nlohmann::ordered_json report = {
      {"as", machines},
      {"ranks", mesh.ranks()},
      {"mesh", {{"replica", mesh.replica}, {"shard", mesh.shard}, {"tensor", mesh.tensor}}},
      {"link_gbytes_per_second", gigabytes(device.link)},
      {"network_gbytes_per_second", gigabytes(device.network)},
      {"rehearsals", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) report["rehearsals"].push_back(row_json(row));
  fmt::print("{}\n", report.dump());
}

void print_rehearsals(const std::string& machines, const plan::Machine& machine,
                      const std::vector<Row>& rows) {
  const config::MeshShape& mesh = rows.front().plan.mesh;
  const std::string shape = config::describe(mesh);
  fmt::print("One of {} of {}{}, rehearsed: {:.4g} GB/s between GPUs{}\n\n", plural(mesh.ranks(), "rank"),
             machines, shape.empty() ? "" : " (" + shape + ")", gigabytes(machine.device.link),
             machine.nodes > 1
                 ? fmt::format(", {:.4g} GB/s per GPU between machines", gigabytes(machine.device.network))
                 : "");
  fmt::print("{:>12} {:>10} {:>10} {:>10} {:>10} {:>7} {:>11} {:>11} {:>10} {:>8}\n", "examples/GPU",
             "update", "planned", "instant*", "wires*", "hidden", "memory", "planned", "examples/s",
             "per GPU");
  for (const Row& row : rows) {
    const run::BenchResult& bench = row.result.bench;
    fmt::print(
        "{:>12.4g} {:>8.3f} s {:>8.3f} s {:>8.3f} s {:>8.3f} s {:>5.0f} % {:>7.2f} GiB {:>7.2f} GiB "
        "{:>10.2f} "
        "{:>8.2f}\n",
        row.plan.examples_per_gpu, bench.mean_seconds(), row.plan.timing.update,
        row.result.instant.mean_seconds(), row.result.on_the_wires, 100 * row.result.hidden(),
        static_cast<double>(bench.peak_bytes) / kGib, row.plan.memory.tensors() / kGib,
        bench.pairs_per_second, bench.pairs_per_second / static_cast<double>(mesh.ranks()));
  }
  fmt::print(
      "\n* instant: the same update if transfers took no time; wires: the time that its transfers took\n");
}

void print_rows(const commands::BenchTrainArguments& arguments, const plan::Machine& machines,
                const std::vector<Row>& rows) {
  if (rows.empty()) return;
  if (arguments.json)
    print_as_json(arguments.as, machines.device, rows);
  else
    print_rehearsals(arguments.as, machines, rows);
}

}  // namespace

int rehearse_training(const commands::BenchTrainArguments& arguments) {
  refuse_launched();
  return in_one_process(arguments.request, [&](const config::Resolved& asked, const comm::World& world) {
    const plan::Machine machines = rehearsed_machines(arguments.machine, asked.values);
    const config::RunConfig run = bench_run(asked, world);
    if (const std::string note = note_about_device(machines.device); !note.empty())
      commands::print_notes({note});
    std::vector<Row> rows;
    try {
      for (const config::RunConfig& one :
           runs_of(arguments, run, config::mesh_of(run, machines.launched->ranks))) {
        const PlannedBench planned(one, machines, /*warns=*/true);
        planned.run([&] {
          rows.push_back({planned.plan, run::rehearse(planned.plan, planned.in, arguments.updates)});
        });
      }
    } catch (const train::TrainingFailure&) {  // a large batch may not fit
      print_rows(arguments, machines, rows);
      throw;
    }
    print_rows(arguments, machines, rows);
    return 0;
  });
}

}  // namespace dpo::engine
