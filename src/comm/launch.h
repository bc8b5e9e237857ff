#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dpo::comm {

using Environment = std::map<std::string, std::string>;

Environment this_environment();

// The program that started this process.
enum class Launcher {
  none,
  variables,  // RANK and WORLD_SIZE: torchrun, Kubernetes operators, or dpo itself
  slurm,      // srun
  open_mpi    // mpirun
};

// A launcher's description of a process, read from environment variables.
struct Launch {
  Launcher launcher = Launcher::none;
  int rank = 0, size = 1;
  std::optional<int> local_rank, local_size;  // on its machine
  std::optional<std::string> address;         // MASTER_ADDR, the address of the rendezvous
  std::optional<std::uint16_t> port;          // MASTER_PORT
  bool store_is_hosted = false;               // torchrun's agent runs the TCP store
  int attempt = 0;                            // torchrun's restart count
};

// Throws a UserError that names the variables if they are missing, not numbers, or contradictory.
Launch read_launch(const Environment& environment);

}  // namespace dpo::comm
