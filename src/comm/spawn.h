#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/launch.h"

namespace dpo::comm {

// A process to start: a program's path and arguments, and the variables added to this process's environment.
struct Process {
  std::vector<std::string> command;
  Environment variables = {};
  int ranks = 0;  // processes that it starts, as mpirun does
};

// How a request to stop (SIGTERM, SIGINT or SIGUSR1) is forwarded to the processes.
enum class Forwarding {
  unchanged,
  as_usr1  // for mpirun, which forwards only SIGUSR1 and kills the ranks on the others
};

// Starts the processes and waits for all of them. When one fails, the others have `grace` to exit before they
// are killed; none outlives this process. Returns the exit status of the first that failed, 2 if a signal
// killed it, or 0 if all succeeded. Returns 143 if a signal requested a stop before all processes had a
// handler for it; they are then ended at once, because they have nothing to save yet.
int start_and_wait(const std::vector<Process>& processes, Forwarding forwarding,
                   std::chrono::milliseconds grace = std::chrono::seconds(10));

// Returns `size` ranks on this machine's GPUs, which meet at this port.
std::vector<Process> local_ranks(const std::vector<std::string>& command, int size, std::uint16_t port);

// Returns mpirun with `size` ranks on this machine. Throws a UserError if mpirun is not installed.
Process mpirun_ranks(const std::vector<std::string>& command, int size);

}  // namespace dpo::comm
