// The bodies of groups, one file each; one that was not built in says no.
#pragma once

#include <cstdint>
#include <string>

#include "comm/world.h"

namespace dpo::comm {

bool has_mpi();
bool has_nccl();

// How an MPI group divides what it exchanges; both bound memory, tests choose small ones.
struct MpiLimits {
  std::size_t piece_bytes = std::size_t{1} << 30;    // of one call of MPI, which counts in int
  std::size_t buffer_bytes = std::size_t{32} << 20;  // to receive what is summed
};

// All processes that mpirun (or srun) started. Exchanges are made by a thread of their own, one after the
// other, so they go on while the caller computes. Tensors of a GPU travel through the host's memory, so that
// several processes can share one.
World mpi_world(const MpiLimits& limits = {});

// Where the processes of a run without MPI meet.
struct Meeting {
  std::string address;
  std::uint16_t port = 0;
  bool hosted = false;  // by the launcher; else the first rank opens it
  int attempt = 0;      // of a launcher that starts ranks again after a failure
};

// Processes with a GPU each, of which this one's is `gpu`.
std::shared_ptr<Group> nccl_group(const Meeting& meeting, int rank, int size, int gpu);

// The same, where the processes can talk already.
std::shared_ptr<Group> nccl_group(const World& connected, int gpu);

// A name of this process's GPU that no other GPU of any machine has.
std::string gpu_identity(int gpu);

}  // namespace dpo::comm
