// The communication backends, one file each. A backend that was not built in throws a UserError.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/world.h"

namespace dpo::comm {

bool has_mpi();
bool has_nccl();

// Limits for dividing large transfers of an MPI group. Both bound memory; tests set small ones.
struct MpiLimits {
  std::size_t piece_bytes = std::size_t{1} << 30;    // bytes of one MPI call, whose counts are int
  std::size_t buffer_bytes = std::size_t{32} << 20;  // bytes of the buffer that receives data to reduce
};

// Returns the world of all processes that mpirun (or srun) started. One thread makes all MPI calls, one after
// the other, so they overlap with computation. GPU tensors are staged through host memory, so several
// processes can share a GPU.
World mpi_world(const MpiLimits& limits = {});

// The value of NCCL_ALGO unless the user sets it. Reductions in NVLink switches (NVLS) may add in another
// order in each call, so they are excluded: two runs with the same seed give the same bits, and so do policy
// and reference before the first update.
inline constexpr const char* kNcclAlgorithms = "^NVLS,NVLSTree";

// The TCP store at MASTER_ADDR:MASTER_PORT, where ranks without MPI find each other.
struct Rendezvous {
  std::string address;
  std::uint16_t port = 0;
  bool hosted = false;  // true: by the launcher (torchrun's agent store); false: by rank 0
  int attempt = 0;      // torchrun's restart count
};

struct NcclSettings {
  int gpu = 0;                        // GPU of this process
  std::chrono::milliseconds timeout;  // timeout of an operation; see nccl_timeout
};

// Returns a group of processes that each have a GPU.
std::shared_ptr<Group> nccl_group(const Rendezvous& rendezvous, int rank, int size,
                                  const NcclSettings& settings);

// Returns a NCCL group of processes that are already connected.
std::shared_ptr<Group> nccl_group(const World& connected, const NcclSettings& settings);

// Returns the UUID of a GPU.
std::string gpu_identity(int gpu);

}  // namespace dpo::comm
