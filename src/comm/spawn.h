#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/launch.h"

namespace dpo::comm {

// A process to start: the path of a program and its arguments, and variables added to our environment.
struct Process {
  std::vector<std::string> command;
  Environment variables = {};
  int ranks = 0;  // processes that it starts itself, as mpirun does
};

// How signals that ask for an orderly stop (SIGTERM, SIGINT, SIGUSR1) are forwarded.
enum class Forwarding {
  unchanged,
  as_usr1  // to mpirun, which forwards SIGUSR1 to the ranks but kills them on the others
};

// Starts the processes and waits for all of them. When one fails, the others have `grace` to exit by
// themselves before they are killed; none outlives this process. Returns the exit status of the first that
// failed, 2 if a signal killed it, or 0; 143 if a signal asked for a stop before all processes had a handler
// for it, in which case they are ended at once, since they have nothing to save yet.
int start_and_wait(const std::vector<Process>& processes, Forwarding forwarding,
                   std::chrono::milliseconds grace = std::chrono::seconds(10));

// `size` ranks on this machine's GPUs, with their rendezvous at this port.
std::vector<Process> local_ranks(const std::vector<std::string>& command, int size, std::uint16_t port);

// mpirun with `size` ranks on this machine. A UserError if there is no mpirun.
Process mpirun_ranks(const std::vector<std::string>& command, int size);

}  // namespace dpo::comm
