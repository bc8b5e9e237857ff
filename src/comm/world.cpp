#include "comm/world.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/backends.h"
#include "comm/sockets.h"
#include "comm/standstill.h"

namespace dpo::comm {
namespace {

int local_gpus() { return has_nccl() ? static_cast<int>(at::getNumGPUs()) : 0; }

[[noreturn]] void refuse_without_mpi(const Launch& launch, const std::string& reason) {
  throw UserError(
      fmt::format("{} processes were started with RANK and WORLD_SIZE (by torchrun, for example), but {}, so "
                  "they need MPI; start them with mpirun -n {} dpo train ...",
                  launch.size, reason, launch.size));
}

int ranks_on_this_machine(Group& all) {
  return static_cast<int>(std::ranges::count(gather_texts(all, host_name()), host_name()));
}

// Connects through the launcher's rendezvous. Without MPI only NCCL is available. Ranks that see one GPU each
// may have been assigned one each; NCCL reports an error if not.
World connect_by_variables(const Launch& launch, std::chrono::milliseconds rank_timeout) {
  const int gpus = local_gpus();
  if (gpus == 0)
    refuse_without_mpi(launch,
                       has_nccl() ? "this machine has no visible GPU" : "this dpo was built without NCCL");
  if (gpus > 1 && launch.local_size.value_or(1) > gpus)
    refuse_without_mpi(launch,
                       fmt::format("{} of them share the {} GPUs of this machine", *launch.local_size, gpus));
  World world;
  world.local_rank = launch.local_rank.value_or(0);
  world.all =
      nccl_group({*launch.address, *launch.port, launch.store_is_hosted, launch.attempt}, launch.rank,
                 launch.size, {.gpu = world.local_rank % gpus, .timeout = nccl_timeout(rank_timeout)});
  world.local_size = launch.local_size ? *launch.local_size : ranks_on_this_machine(*world.all);
  return world;
}

// Returns true if every rank has its own GPU.
bool have_own_gpus(Group& all, int local_rank) {
  const int gpus = local_gpus();
  const std::vector<std::string> names =
      gather_texts(all, gpus == 0 ? std::string() : gpu_identity(local_rank % gpus));
  const std::set<std::string> distinct(names.begin(), names.end());
  return distinct.size() == names.size() && !distinct.contains("");
}

World connect_by_mpi(const Launch& launch, std::chrono::milliseconds rank_timeout) {
  World world = mpi_world();
  if (world.all->size() != launch.size || world.all->rank() != launch.rank)
    throw UserError(fmt::format(
        "the launcher says rank {} of {}, but MPI says rank {} of {}: {}", launch.rank, launch.size,
        world.all->rank(), world.all->size(),
        launch.launcher == Launcher::slurm
            ? "srun was run without support for this Open MPI; try srun --mpi=pmix, or mpirun in the job"
            : "mpirun and the MPI that dpo was built with are different installations"));
  if (has_nccl() && have_own_gpus(*world.all, world.local_rank))
    world.all =
        nccl_group(world, {.gpu = world.local_rank % local_gpus(), .timeout = nccl_timeout(rank_timeout)});
  return world;
}

}  // namespace

World connect(const Launch& launch, std::chrono::milliseconds rank_timeout) {
  switch (launch.launcher) {
    case Launcher::none: return {};
    case Launcher::variables:
      if (launch.size == 1 && (local_gpus() == 0 || !launch.address || !launch.port)) return {};
      return connect_by_variables(launch, rank_timeout);
    case Launcher::slurm:
      // If srun lacks MPI support, a job script sets MASTER_ADDR and MASTER_PORT.
      if (local_gpus() > 0 && launch.address && launch.port)
        return connect_by_variables(launch, rank_timeout);
      return connect_by_mpi(launch, rank_timeout);
    case Launcher::open_mpi: return connect_by_mpi(launch, rank_timeout);
  }
  return {};
}

}  // namespace dpo::comm
