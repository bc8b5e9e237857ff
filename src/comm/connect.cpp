#include "comm/connect.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/bodies.h"
#include "comm/exchange.h"

namespace dpo::comm {
namespace {

int gpus_here() { return has_nccl() ? static_cast<int>(at::getNumGPUs()) : 0; }

[[noreturn]] void refuse_without_mpi(const Launch& launch, const std::string& reason) {
  throw UserError(
      fmt::format("{} processes were started by RANK and WORLD_SIZE (torchrun, for example), and {}, so they "
                  "would talk over MPI; start them with mpirun -n {} dpo train ...",
                  launch.size, reason, launch.size));
}

// The ranks meet where the launcher says, and NCCL is all they have. Those that see one GPU each may have
// been given one each; NCCL says if they were not.
World connect_by_variables(const Launch& launch) {
  const int gpus = gpus_here(), local_rank = launch.local_rank.value_or(0),
            local_size = launch.local_size.value_or(local_rank + 1);
  if (gpus == 0)
    refuse_without_mpi(launch, has_nccl() ? "this machine shows no GPU" : "this dpo has no CUDA part");
  if (local_size > gpus && gpus > 1)
    refuse_without_mpi(launch, fmt::format("{} of them share the {} GPUs of this machine", local_size, gpus));
  const Meeting meeting{*launch.address, *launch.port, launch.store_is_hosted, launch.attempt};
  World world{nccl_group(meeting, launch.rank, launch.size, local_rank % gpus), local_rank, local_size};
  return world;
}

// Whether every rank has a GPU that is no other's.
bool have_own_gpus(Group& all, int local_rank) {
  const int gpus = gpus_here();
  const std::vector<std::string> names =
      gather_texts(all, gpus == 0 ? std::string() : gpu_identity(local_rank % gpus));
  const std::set<std::string> distinct(names.begin(), names.end());
  return distinct.size() == names.size() && !distinct.contains("");
}

World connect_by_mpi(const Launch& launch) {
  World world = mpi_world();
  if (world.all->size() != launch.size || world.all->rank() != launch.rank)
    throw UserError(
        fmt::format("the launcher says rank {} of {}, but MPI says rank {} of {}: {}", launch.rank,
                    launch.size, world.all->rank(), world.all->size(),
                    launch.launcher == Launcher::slurm
                        ? "srun and this Open MPI do not know each other; try srun --mpi=pmix, or mpirun "
                          "inside of the job"
                        : "mpirun and the MPI that dpo was built with are not the same installation"));
  if (has_nccl() && have_own_gpus(*world.all, world.local_rank))
    world.all = nccl_group(world, world.local_rank % gpus_here());
  return world;
}

}  // namespace

World connect(const Launch& launch) {
  switch (launch.launcher) {
    case Launcher::none: return {};
    case Launcher::variables:
      if (launch.size == 1 && (gpus_here() == 0 || !launch.address || !launch.port)) return {};
      return connect_by_variables(launch);
    case Launcher::slurm:
      // Without MPI in srun, a script says where to meet.
      if (gpus_here() > 0 && launch.address && launch.port) return connect_by_variables(launch);
      return connect_by_mpi(launch);
    case Launcher::open_mpi: return connect_by_mpi(launch);
  }
  return {};
}

}  // namespace dpo::comm
