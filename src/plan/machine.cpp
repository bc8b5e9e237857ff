#include "plan/machine.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/user_path.h"
#include "config/mesh.h"

namespace dpo::plan {
namespace {

constexpr const char* kReferenceDevice = "a100-80gb";  // the GPU of the reference results

// Returns one of `ranks` equal parts of a device. The link of a processor is already the one between its
// ranks.
Device share_of(Device device, std::int64_t ranks) {
  for (double* figure : {&device.memory, &device.memory_bandwidth, &device.bf16_flops, &device.fp32_flops,
                         &device.network, &device.host_link, &device.watts, &device.usd_per_hour})
    *figure /= static_cast<double>(ranks);
  if (!device.is_cpu) device.link /= static_cast<double>(ranks);
  return device;
}

// Takes the GPUs of the machine. If they differ, all are planned like the one with the least memory.
void take_gpus(Machine& machine, const std::vector<hardware::Gpu>& gpus) {
  const auto& smallest = *std::ranges::min_element(gpus, {}, &hardware::Gpu::memory_bytes);
  machine.device = device_of(smallest);
  if (std::ranges::any_of(gpus, [&](const hardware::Gpu& gpu) { return gpu.name != smallest.name; }))
    machine.notes.push_back(fmt::format(
        "the GPUs of this machine differ: all planned as {}, the one with the least memory", smallest.name));
}

void take_processor(Machine& machine, const hardware::Gpus& gpus) {
  const hardware::Processor processor = hardware::find_processor();
  machine.device = device_of(processor);
  if (gpus.obstacle.empty())
    machine.notes.push_back(
        "this machine has no GPU: planned for its CPU (--gpus and --device plan for another machine)");
  else
    machine.unused_gpus =
        fmt::format("{}the run uses the CPU: {}",
                    gpus.found.empty() ? "" : gpus.found.front().name + " is not used, ", gpus.obstacle);
  if (processor.cores < processor.machine_cores || processor.memory < processor.machine_memory)
    machine.notes.push_back(fmt::format(
        "this process may use {:.3g} of the machine's {} and {} of its {} (CPU affinity, cgroups)",
        processor.cores, plural(processor.machine_cores, "core"), memory_size(processor.memory),
        memory_size(processor.machine_memory)));
}

// Says where the figures come from, unless it is configs/device or the file the user asked for.
void note_figures(Machine& machine, const MachineRequest& request) {
  const Device& d = machine.device;
  if (d.origin == FiguresOrigin::estimated)
    machine.notes.push_back(fmt::format(
        "no device file for {}: rates and links are estimated from its driver properties ({:.3g} TFLOP/s in "
        "16 bits, {:.3g} in float32, {:.4g} GB/s), power and price are unknown; 'dpo bench device' measures "
        "it and saves the figures for later plans",
        d.name, d.bf16_flops / 1e12, d.fp32_flops / 1e12, d.memory_bandwidth / 1e9));
  if (d.is_cpu && d.origin == FiguresOrigin::shipped && machine.here)
    machine.notes.push_back(
        "this CPU is assumed to be as fast as Sapphire Rapids cores; 'dpo bench device' measures it");
  if (d.origin == FiguresOrigin::own && d.file != request.device)
    machine.notes.push_back(fmt::format("the figures of {} come from your own file {}", d.name, d.file));
}

std::int64_t positive(std::optional<std::int64_t> value, const char* option) {
  constexpr std::int64_t kMost = 1'000'000;
  if (value && (*value < 1 || *value > kMost))
    throw UserError(fmt::format("{} is {}, expected a whole number from 1 to {}", option, *value, kMost));
  return value.value_or(1);
}

// Replaces a device's figure by the user's, if there is one.
void replace_rate(double& rate, std::optional<double> gigabytes, const char* option) {
  constexpr double kLeast = 0.001, kMost = 1e6;
  if (!gigabytes) return;
  if (!(*gigabytes >= kLeast && *gigabytes <= kMost))
    throw UserError(
        fmt::format("{} is {:g}, expected GB/s from {:g} to {:g}", option, *gigabytes, kLeast, kMost));
  rate = *gigabytes * 1e9;
}

// Removes "8x" from the start of a text and returns the number, or nullopt without one.
std::optional<std::int64_t> take_count(std::string_view& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || count < 1 || digits == text.size() || text[digits] != 'x') return std::nullopt;
  text.remove_prefix(digits + 1);
  return count;
}

}  // namespace

void read_machines(const std::string& text, MachineRequest& request) {
  std::string_view rest = text;
  const std::optional<std::int64_t> first = take_count(rest), second = first ? take_count(rest) : first;
  if (!first || rest.empty())
    throw UserError(fmt::format(
        "--as is '{}', expected GPUSxDEVICE or MACHINESxGPUSxDEVICE, such as 8xh100 or 4x8xh100", text));
  request.gpus = second ? second : first;
  request.nodes = second ? *first : 1;
  request.device = expand_home(std::string(rest));
}

Machine find_machine(const MachineRequest& request, const hardware::Gpus& gpus) {
  Machine machine;
  machine.gpus = positive(request.gpus, "--gpus");
  machine.nodes = positive(request.nodes, "--nodes");
  machine.here = !request.gpus && !request.nodes && !request.device;
  if (request.ranks) machine.launched = Launched{*request.ranks, request.ranks_here.value_or(*request.ranks)};
  // Another machine may have GPUs like this one, even if this build cannot use them.
  const std::vector<hardware::Gpu> here = request.gpus || request.nodes ? gpus.found : gpus.usable();
  if (request.device) {
    machine.device = load_device(*request.device);
  } else if (!here.empty()) {
    take_gpus(machine, here);
    if (!request.gpus) machine.gpus = static_cast<std::int64_t>(here.size());
  } else if (request.gpus || request.nodes) {
    machine.device = load_device(kReferenceDevice);
    machine.notes.push_back(fmt::format(
        "this machine has no GPU: planned for {} (choose another with --device)", kReferenceDevice));
  } else {
    take_processor(machine, gpus);
  }
  replace_rate(machine.device.link, request.link, "--link");
  replace_rate(machine.device.network, request.network, "--network");
  note_figures(machine, request);
  return machine;
}

Machine find_machine(const MachineRequest& request) {
  return find_machine(request, request.device ? hardware::Gpus() : hardware::find_gpus());
}

Machine machine_of_ranks(const Machine& machine, const config::RunConfig& run) {
  if (run.trainer == config::Trainer::Basic) return machine;
  Machine shared = machine;
  if (machine.launched) {
    shared.gpus = machine.launched->on_machine;
    shared.nodes = (machine.launched->ranks + shared.gpus - 1) / shared.gpus;
  } else if (machine.nodes == 1) {
    shared.gpus = config::ranks_to_start(run, machine.gpus);  // as 'dpo train' starts them
  }
  const std::int64_t sharing = (shared.gpus + machine.gpus - 1) / machine.gpus;
  if (sharing > 1) shared.device = share_of(machine.device, sharing);
  return shared;
}

}  // namespace dpo::plan
