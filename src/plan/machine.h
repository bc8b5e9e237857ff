#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpo::plan {

// One GPU (or the processor) in figures: bytes, bytes per second, FLOP/s.
struct Device {
  std::string name;
  double memory = 0;
  double memory_bandwidth = 0;
  double half_rate = 0;    // bfloat16 and float16 matrix products, peak
  double single_rate = 0;  // float32, peak
  double efficiency = 0;   // share of the peak that a training step reaches
  double link = 0;         // bus bandwidth to the other GPUs of the machine, per GPU
  double network = 0;      // to other machines, per GPU
  double watts = 0;
  double usd_per_hour = 0;
  bool is_cpu = false;
};

// The devices a run is planned for.
struct Machine {
  Device device;
  std::int64_t gpus = 1;   // in each machine
  std::int64_t nodes = 1;  // machines
  bool here = true;        // this machine, whose disk and devices can be looked at
  std::vector<std::string> notes;

  std::int64_t ranks() const { return gpus * nodes; }
  double bus() const { return nodes > 1 ? device.network : device.link; }
};

// What the user said: --gpus, --nodes, --device; the rest is found on this machine.
struct MachineRequest {
  std::optional<std::int64_t> gpus;
  std::optional<std::int64_t> nodes;
  std::optional<std::string> device;  // a name of configs/device/ or a YAML file
};

Device load_device(const std::string& name_or_file);
Machine find_machine(const MachineRequest& request);

}  // namespace dpo::plan
