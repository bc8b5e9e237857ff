#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dpo::comm {

using Environment = std::map<std::string, std::string>;

Environment this_environment();

// Who started this process.
enum class Launcher {
  none,
  variables,  // RANK and WORLD_SIZE: torchrun, Kubernetes operators, or dpo itself
  slurm,      // srun
  open_mpi    // mpirun
};

// What a launcher says about a process in its environment.
struct Launch {
  Launcher launcher = Launcher::none;
  int rank = 0, size = 1;
  std::optional<int> local_rank, local_size;  // on its machine
  std::optional<std::string> address;         // the rendezvous: MASTER_ADDR
  std::optional<std::uint16_t> port;          // and MASTER_PORT
  bool store_is_hosted = false;               // torchrun's agent runs the TCP store
  int attempt = 0;                            // torchrun's restart count
};

// Variables that are missing, not numbers, or contradictory are a UserError that names them.
Launch read_launch(const Environment& environment);

}  // namespace dpo::comm
