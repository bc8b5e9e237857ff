#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include <ATen/core/Tensor.h>

#include "comm/group.h"

namespace dpo::run {

// Identifies this rank and its launch of the run.
struct RankId {
  int rank = 0, ranks = 1;
  std::string launch_id{};  // unique; see check_shared
};

// Work of the ranks in a temporary folder.
struct RankTasks {
  std::function<void(const std::filesystem::path&)> begin;     // rank 0, before the others start
  std::function<void(const std::filesystem::path&)> own_part;  // every rank, at the same time
  std::function<void(const std::filesystem::path&)> end;       // rank 0, after all parts are done
};

// Writes a folder together with all other ranks. The folder is complete or absent. Every rank calls this in a
// background thread. Ranks report their progress through files, because collectives belong to the main
// thread. If one rank fails, all throw its message. `stop` ends the wait for ranks that may be gone; the
// folder is then absent if a part was missing. `marker` is a file that `end` writes; without it the folder is
// not complete.
void write_on_all_ranks(const std::filesystem::path& folder, const std::string& marker, const RankId& self,
                        const RankTasks& tasks, const std::stop_token& stop);

// Throws a UserError on all ranks unless all see the same run folder, which write_on_all_ranks needs. Returns
// a new id for this launch. A collective call. `device` is the device of the tensors that the group sends.
std::string check_shared(const std::filesystem::path& run, comm::Group& all, at::Device device = at::kCPU);

}  // namespace dpo::run
