#include "plan/machine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "config/assets.h"
#include "config/mesh.h"
#include "plan/fact_file.h"
#include "plan/units.h"

namespace dpo::plan {
namespace {

constexpr const char* kReferenceDevice = "a100-80gb";  // what the reference results were made on

double memory_of_this_machine() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

// The models of the NVIDIA GPUs that the driver lists, in its order.
std::vector<std::string> gpus_of_driver() {
  std::vector<std::string> models;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream information(entry.path() / "information");
    for (std::string line; std::getline(information, line);) {
      if (line.rfind("Model:", 0) != 0) continue;
      const auto start = line.find_first_not_of(" \t", 6);
      models.push_back(start == std::string::npos ? "" : line.substr(start));
    }
  }
  return models;
}

// CUDA_VISIBLE_DEVICES hides GPUs: the number left, of `count`.
std::int64_t visible(std::int64_t count) {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) return count;
  std::int64_t named = 0;
  const std::string text = list;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const std::string id = text.substr(start, end - start);
    if (id.empty() || id[0] == '-') break;  // as CUDA does: nothing counts after an invalid id
    ++named;
    start = end + 1;
  }
  return std::min(named, count);
}

std::optional<std::string> device_matching(const std::string& model) {
  for (const std::string& name : config::assets_in("device")) {
    FactFile file("device", name);
    for (const std::string& piece : file.texts("matches"))
      if (model.find(piece) != std::string::npos) return name;
  }
  return std::nullopt;
}

// One of `ranks` equal parts of a device.
Device share_of(Device device, std::int64_t ranks) {
  for (double* figure : {&device.memory, &device.memory_bandwidth, &device.half_rate, &device.single_rate,
                         &device.watts, &device.usd_per_hour})
    *figure /= static_cast<double>(ranks);
  return device;
}

std::int64_t positive(std::optional<std::int64_t> value, const char* option) {
  constexpr std::int64_t kMost = 1'000'000;
  if (value && (*value < 1 || *value > kMost))
    throw UserError(fmt::format("{} is {}, expected a whole number from 1 to {}", option, *value, kMost));
  return value.value_or(1);
}

}  // namespace

Device load_device(const std::string& name_or_file) {
  FactFile file("device", name_or_file);
  file.texts("matches");
  Device d;
  d.name = std::filesystem::path(name_or_file).filename().string();
  d.is_cpu = file.flag("per_core", false);
  const auto memory = file.optional_number("memory_gib", 0.01);
  d.memory = memory ? *memory * kGib : memory_of_this_machine();
  const auto cores_given = file.optional_number("cores", 1);
  if (cores_given && !d.is_cpu) file.fail("'cores' is for a processor (per_core: true)");
  const double cores_here = std::max(1u, std::thread::hardware_concurrency());
  const double cores = d.is_cpu ? cores_given.value_or(cores_here) : 1;
  d.memory_bandwidth = file.number("memory_gbytes_per_second", 0.01) * 1e9 * cores;
  d.half_rate = file.number("bf16_tflops", 0.0001) * 1e12 * cores;
  d.single_rate = file.number("fp32_tflops", 0.0001) * 1e12 * cores;
  d.efficiency = file.number("efficiency", 0.01);
  d.link = file.number("link_gbytes_per_second", 0.001) * 1e9;
  d.network = file.number("network_gbytes_per_second", 0.001) * 1e9;
  d.watts = file.number("watts", 0) * cores;
  d.usd_per_hour = file.number("usd_per_hour", 0) * cores;
  file.finish();
  if (d.efficiency > 1) file.fail("'efficiency' is more than 1");
  return d;
}

Machine find_machine(const MachineRequest& request) {
  Machine machine;
  machine.gpus = positive(request.gpus, "--gpus");
  machine.nodes = positive(request.nodes, "--nodes");
  machine.here = !request.gpus && !request.nodes && !request.device;
  if (request.ranks) machine.launched = Launched{*request.ranks, request.ranks_here.value_or(*request.ranks)};
  const auto models = gpus_of_driver();
  const std::int64_t found = visible(static_cast<std::int64_t>(models.size()));
  if (!request.gpus && !request.device) machine.gpus = std::max<std::int64_t>(1, found);
  if (request.device) {
    machine.device = load_device(*request.device);
  } else if (found > 0) {
    const auto name = device_matching(models.front());
    if (!name)
      throw UserError(
          fmt::format("no figures are known for this machine's GPU '{}'; name a similar device with "
                      "--device, or describe it in a YAML file like configs/device/h100.yaml",
                      models.front()));
    machine.device = load_device(*name);
  } else if (request.gpus || request.nodes) {
    machine.device = load_device(kReferenceDevice);
    machine.notes.push_back(
        fmt::format("this machine has no GPU: planned for {}, the device of the reference results; "
                    "--device names another",
                    kReferenceDevice));
  } else {
    machine.device = load_device("cpu");
    machine.notes.push_back(
        "this machine has no GPU: planned for its processor; --gpus and --device plan for another");
  }
  return machine;
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
