#pragma once

#include <functional>

#include "comm/world.h"
#include "config/compose.h"
#include "plan/machine.h"

namespace dpo::engine {

using RankWork = std::function<int(const config::Resolved& resolved, const comm::World& world)>;

// Does the work of a command in every process of a run, and returns the program's exit status. A process that
// a launcher started is one of them. Outside of any launcher this one alone does the work, or starts as many
// as trainer, mesh and GPUs ask for and waits for them. A rank that fails ends them all.
int on_ranks(const config::Request& request, const RankWork& work);

// The machine that this process runs on, and the others of its run.
plan::Machine machine_of(const comm::World& world);

}  // namespace dpo::engine
