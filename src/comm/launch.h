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
  variables,  // RANK and WORLD_SIZE: torchrun, Kubernetes' operators, or this program itself
  slurm,      // srun
  open_mpi    // mpirun
};

// What a launcher says of a process in its environment.
struct Launch {
  Launcher launcher = Launcher::none;
  int rank = 0, size = 1;
  std::optional<int> local_rank, local_size;  // among those of its machine
  std::optional<std::string> address;         // where the ranks are to meet
  std::optional<std::uint16_t> port;
  bool store_is_hosted = false;  // there already, by the launcher
  int attempt = 0;               // of a launcher that starts ranks again after a failure
};

// Variables that are missing, no numbers, or contradict each other are a UserError that names them.
Launch read_launch(const Environment& environment);

}  // namespace dpo::comm
