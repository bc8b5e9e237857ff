#include "plan/machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "config/mesh.h"

namespace dpo::plan {
namespace {

constexpr const char* kReferenceDevice = "a100-80gb";  // what the reference results were made on

// One of `ranks` equal parts of a device.
Device share_of(Device device, std::int64_t ranks) {
  for (double* figure : {&device.memory, &device.memory_bandwidth, &device.half_rate, &device.single_rate,
                         &device.watts, &device.usd_per_hour})
    *figure /= static_cast<double>(ranks);
  return device;
}

// Of GPUs that differ, the run gets no more from any than from the smallest.
void take_gpus(Machine& machine, const std::vector<hardware::Gpu>& gpus) {
  const auto& smallest = *std::ranges::min_element(gpus, {}, &hardware::Gpu::memory_bytes);
  machine.device = device_of(smallest);
  if (std::ranges::any_of(gpus, [&](const hardware::Gpu& gpu) { return gpu.name != smallest.name; }))
    machine.notes.push_back(fmt::format(
        "the GPUs of this machine differ: planned as if each were {}, the one with the least memory",
        smallest.name));
}

void take_processor(Machine& machine, const hardware::Gpus& gpus) {
  const hardware::Processor processor = hardware::find_processor();
  machine.device = device_of(processor);
  if (gpus.obstacle.empty())
    machine.notes.push_back(
        "this machine has no GPU: planned for its processor; --gpus and --device plan for another");
  else
    machine.unused_gpus =
        fmt::format("{}the run goes on the processor: {}",
                    gpus.found.empty() ? "" : gpus.found.front().name + " is not used, ", gpus.obstacle);
  if (processor.cores < processor.machine_cores || processor.memory < processor.machine_memory)
    machine.notes.push_back(fmt::format(
        "this process may use {:.3g} of the machine's {} cores and {} of its {} (affinity, control groups)",
        processor.cores, processor.machine_cores, memory_size(processor.memory),
        memory_size(processor.machine_memory)));
}

// What the figures are worth, where they are not those of configs/device or of a file that was asked for.
void note_figures(Machine& machine, const MachineRequest& request) {
  const Device& d = machine.device;
  if (d.figures == Figures::estimated)
    machine.notes.push_back(fmt::format(
        "no device file describes {}: rates and links are estimates from what its driver says ({:.3g} "
        "TFLOP/s in 16 bits, {:.3g} in float32, {:.4g} GB/s), power and price are unknown; 'dpo bench "
        "device' measures it and keeps the figures for later plans",
        d.name, d.half_rate / 1e12, d.single_rate / 1e12, d.memory_bandwidth / 1e9));
  if (d.is_cpu && d.figures == Figures::shipped && machine.here)
    machine.notes.push_back(
        "the processor's rates are those of a Sapphire Rapids core, times its cores; 'dpo bench device' "
        "measures this one");
  if (d.figures == Figures::own && d.file != request.device)
    machine.notes.push_back(fmt::format("the figures of {} are those of your own file {}", d.name, d.file));
}

std::int64_t positive(std::optional<std::int64_t> value, const char* option) {
  constexpr std::int64_t kMost = 1'000'000;
  if (value && (*value < 1 || *value > kMost))
    throw UserError(fmt::format("{} is {}, expected a whole number from 1 to {}", option, *value, kMost));
  return value.value_or(1);
}

}  // namespace

Machine find_machine(const MachineRequest& request, const hardware::Gpus& gpus) {
  Machine machine;
  machine.gpus = positive(request.gpus, "--gpus");
  machine.nodes = positive(request.nodes, "--nodes");
  machine.here = !request.gpus && !request.nodes && !request.device;
  if (request.ranks) machine.launched = Launched{*request.ranks, request.ranks_here.value_or(*request.ranks)};
  // A machine that need not be here may have GPUs like those of this one, whatever this build can use.
  const std::vector<hardware::Gpu> here = request.gpus || request.nodes ? gpus.found : gpus.usable();
  if (request.device) {
    machine.device = load_device(*request.device);
  } else if (!here.empty()) {
    take_gpus(machine, here);
    if (!request.gpus) machine.gpus = static_cast<std::int64_t>(here.size());
  } else if (request.gpus || request.nodes) {
    machine.device = load_device(kReferenceDevice);
    machine.notes.push_back(
        fmt::format("this machine has no GPU: planned for {}, the device of the reference results; "
                    "--device names another",
                    kReferenceDevice));
  } else {
    take_processor(machine, gpus);
  }
  note_figures(machine, request);
  return machine;
}

Machine find_machine(const MachineRequest& request) {
  return find_machine(request, request.device ? hardware::Gpus() : hardware::find_gpus());
}

Machine machine_of_ranks(const Machine& machine, const config::RunConfig& run) {
  if (run.trainer == "BasicTrainer") return machine;
  Machine seen = machine;
  if (machine.launched) {
    seen.gpus = machine.launched->on_machine;
    seen.nodes = (machine.launched->ranks + seen.gpus - 1) / seen.gpus;
  } else if (machine.nodes == 1) {
    seen.gpus = config::ranks_to_start(run, machine.gpus);  // as 'dpo train' starts them
  }
  const std::int64_t sharing = (seen.gpus + machine.gpus - 1) / machine.gpus;
  if (sharing > 1) seen.device = share_of(machine.device, sharing);
  return seen;
}

}  // namespace dpo::plan
