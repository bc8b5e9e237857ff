#pragma once

#include <functional>
#include <string>

#include "comm/world.h"
#include "config/compose.h"
#include "plan/machine.h"

namespace dpo::engine {

using RankWork = std::function<int(const config::Resolved& resolved, const comm::World& world)>;

// Does a command's work in every process of a run, and returns the exit status. A process that a launcher
// started is one of them. Without a launcher, this process does the work alone, or starts as many processes
// as trainer, mesh and GPUs need and waits for them. A rank that fails ends them all. `command`: its name and
// what else decides what the ranks compute, which must be the same on all.
int on_ranks(const std::string& command, const config::Request& request, const RankWork& work);

// Work that one rank of each machine does while the others wait, such as a download. `first`: it is rank 0.
void once_per_machine(const comm::World& world, const std::function<void(bool first)>& work);

// The machine of this process, and the ranks of its run.
plan::Machine machine_of(const comm::World& world);

}  // namespace dpo::engine
