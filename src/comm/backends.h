// The backends of groups, one file each. One that was not built in throws a UserError.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/world.h"

namespace dpo::comm {

bool has_mpi();
bool has_nccl();

// How an MPI group divides large transfers. Both bound memory; tests choose small ones.
struct MpiLimits {
  std::size_t piece_bytes = std::size_t{1} << 30;    // of one MPI call, which counts in int
  std::size_t buffer_bytes = std::size_t{32} << 20;  // to receive what is summed
};

// All processes that mpirun (or srun) started. One thread makes all MPI calls, one after the other, so they
// overlap with computation. GPU tensors are staged through host memory, so that several processes can share a
// GPU.
World mpi_world(const MpiLimits& limits = {});

// Where ranks without MPI find each other: the TCP store at MASTER_ADDR:MASTER_PORT.
struct Rendezvous {
  std::string address;
  std::uint16_t port = 0;
  bool hosted = false;  // by the launcher (torchrun's agent store), otherwise by rank 0
  int attempt = 0;      // torchrun's restart count
};

struct NcclSettings {
  int gpu = 0;                        // of this process
  std::chrono::milliseconds timeout;  // of an operation; see nccl_timeout
};

// Processes with a GPU each.
std::shared_ptr<Group> nccl_group(const Rendezvous& rendezvous, int rank, int size,
                                  const NcclSettings& settings);

// The same for processes that are already connected.
std::shared_ptr<Group> nccl_group(const World& connected, const NcclSettings& settings);

// The UUID of a GPU.
std::string gpu_identity(int gpu);

}  // namespace dpo::comm
