#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "plan/device.h"

namespace dpo::plan {

// The processes that a launcher started.
struct Launched {
  std::int64_t ranks = 1;
  std::int64_t on_machine = 1;  // of them, those on this machine
};

// The devices a run is planned for.
struct Machine {
  Device device;
  std::int64_t gpus = 1;   // in each machine
  std::int64_t nodes = 1;  // machines
  bool here = true;        // this machine, whose disk and devices can be looked at
  std::optional<Launched> launched;
  std::string unused_gpus;  // those of this machine that the run cannot use, why, and what to do
  std::vector<std::string> notes;

  std::int64_t ranks() const { return launched ? launched->ranks : gpus * nodes; }
  // What connects groups of ranks each of which takes `span` neighbours: one that no machine holds whole
  // is as slow as the network.
  double bus(std::int64_t span) const {
    return nodes == 1 || (span <= gpus && gpus % span == 0) ? device.link : device.network;
  }
};

// What the user said: --gpus, --nodes, --device; the rest is found on this machine.
struct MachineRequest {
  std::optional<std::int64_t> gpus{};
  std::optional<std::int64_t> nodes{};
  std::optional<std::string> device{};  // a name of configs/device/ or of an own file, or a YAML file
  // Of a run that was started as several processes: how many, and how many of them here (none: all).
  std::optional<std::int64_t> ranks{};
  std::optional<std::int64_t> ranks_here{};
};

Machine find_machine(const MachineRequest& request);

// The same on a machine with these GPUs.
Machine find_machine(const MachineRequest& request, const hardware::Gpus& gpus);

// The machine as the ranks of a run see it: `gpus` counts the ranks on it, and `device` is one rank's share.
// Without a launcher there are as many on one machine as 'dpo train' starts: one for each GPU, or what the
// mesh's keys say; they share what is less. One process without a mesh (BasicTrainer) has all of it.
Machine machine_of_ranks(const Machine& machine, const config::RunConfig& run);

}  // namespace dpo::plan
