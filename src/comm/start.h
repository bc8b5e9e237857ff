#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/launch.h"

namespace dpo::comm {

// A program to start: its path, its words, and what its environment has more than ours.
struct Process {
  std::vector<std::string> command;
  Environment more = {};
};

// How signals that ask for an end in order (SIGTERM, SIGINT, SIGUSR1) are passed on.
enum class Forwarding {
  as_they_are,
  as_usr1  // by mpirun, which passes SIGUSR1 on to the ranks but kills them at the others
};

// Starts the processes and waits for all of them. When one fails, the others get a moment to end by
// themselves and are then killed; none outlives this process. The status of the first that failed, or 0; of
// one that a signal killed, 2.
int start_and_wait(const std::vector<Process>& processes, Forwarding forwarding,
                   std::chrono::milliseconds moment = std::chrono::seconds(10));

// The commands of `size` ranks on this machine's GPUs that meet at this port.
std::vector<Process> ranks_of_this_machine(const std::vector<std::string>& command, int size,
                                           std::uint16_t port);

// mpirun with that many ranks on this machine. A UserError where there is no mpirun.
Process ranks_of_mpirun(const std::vector<std::string>& command, int size);

}  // namespace dpo::comm
