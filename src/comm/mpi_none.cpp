#include "base/error.h"
#include "comm/backends.h"

namespace dpo::comm {

bool has_mpi() { return false; }

World mpi_world(const MpiLimits&) {
  throw UserError(
      "several processes on CPUs need Open MPI, and this dpo was built without it; install openmpi-bin and "
      "libopenmpi-dev (or load your cluster's module), then ./run build");
}

}  // namespace dpo::comm
