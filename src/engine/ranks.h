#pragma once

#include <functional>
#include <string>

#include "comm/world.h"
#include "config/compose.h"
#include "plan/machine.h"

namespace dpo::engine {

using RankWork = std::function<int(const config::Resolved& resolved, const comm::World& world)>;

// Runs `work` in every process of a run and returns the exit status. A process started by a launcher is one
// of them. Without a launcher, this process either works alone, or starts as many processes as trainer, mesh
// and GPUs need and waits for them. If a rank fails, all ranks end. `command` contains the command's name and
// everything else that decides what the ranks compute; it must be the same on all of them.
int on_ranks(const std::string& command, const config::Request& request, const RankWork& work);

// Runs `work` in this process only, which no launcher has started.
int in_one_process(const config::Request& request, const RankWork& work);

// Runs `work` on one rank of each machine while the others wait, for instance for a download. `first` is true
// on rank 0.
void once_per_machine(const comm::World& world, const std::function<void(bool first)>& work);

// Returns the machine of this process and the ranks of its run.
plan::Machine machine_of(const comm::World& world);

}  // namespace dpo::engine
