#include "base/error.h"
#include "comm/bodies.h"

namespace dpo::comm {

bool has_mpi() { return false; }

World mpi_world(const MpiLimits&) {
  throw UserError(
      "several processes on CPUs talk over Open MPI, and this dpo was built without it; install openmpi-bin "
      "and "
      "libopenmpi-dev (or load your cluster's module), then ./run build");
}

}  // namespace dpo::comm
