#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "plan/device.h"

namespace dpo::plan {

// The processes that a launcher started.
struct Launched {
  std::int64_t ranks = 1;
  std::int64_t on_machine = 1;  // ranks on this machine
};

// The devices a run is planned for.
struct Machine {
  Device device;
  std::int64_t gpus = 1;   // in each machine
  std::int64_t nodes = 1;  // machines
  bool here = true;        // this machine, whose disk and devices can be checked
  std::optional<Launched> launched;
  std::string unused_gpus;  // a message about GPUs of this machine that the run cannot use; empty: none
  std::vector<std::string> notes;

  std::int64_t ranks() const { return launched ? launched->ranks : gpus * nodes; }
  // True if groups of `span` neighbouring ranks lie within one machine each.
  bool is_within_machine(std::int64_t span) const { return nodes == 1 || (span <= gpus && gpus % span == 0); }
  // Returns the bandwidth of a ring over every stride-th of `span` neighbouring ranks. It is the link's
  // within a machine. Between machines, a ring enters and leaves each machine once, so it has the network
  // adapters of all its ranks there, up to the link's bandwidth.
  double bus(std::int64_t span, std::int64_t stride = 1) const {
    if (is_within_machine(span)) return device.link;
    const std::int64_t on_machine = std::max<std::int64_t>(1, std::gcd(span, gpus) / stride);
    return std::min(device.link, device.network * static_cast<double>(on_machine));
  }
};

// The user's choices with --gpus, --nodes, --device, --link and --network. The rest is found on this machine.
struct MachineRequest {
  std::optional<std::int64_t> gpus{};
  std::optional<std::int64_t> nodes{};
  std::optional<std::string> device{};  // a name in configs/device/ or of an own file, or a path
  std::optional<double> link{};         // GB/s per GPU, in place of the device's figures
  std::optional<double> network{};
  // Set for a run that was started as several processes: how many there are, and how many of them are on this
  // machine (default: all).
  std::optional<std::int64_t> ranks{};
  std::optional<std::int64_t> ranks_here{};
};

Machine find_machine(const MachineRequest& request);

// Reads "8xh100" (8 GPUs of one machine) or "4x8xh100" (4 machines of 8) into `request`. The device is a name
// or a file, as for --device.
void read_machines(const std::string& text, MachineRequest& request);

// Overload for a machine with these GPUs.
Machine find_machine(const MachineRequest& request, const hardware::Gpus& gpus);

// Returns the machine as the ranks of a run share it: `gpus` counts the ranks on it, and `device` is one
// rank's share. Without a launcher these are the ranks that 'dpo train' starts: one per GPU, or as many as
// the mesh keys ask for, which then share GPUs. BasicTrainer is one process with the whole machine.
Machine machine_of_ranks(const Machine& machine, const config::RunConfig& run);

}  // namespace dpo::plan
