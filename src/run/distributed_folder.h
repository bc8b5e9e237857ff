#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include <ATen/core/Tensor.h>

#include "comm/group.h"

namespace dpo::run {

// This rank, and its launch of the run.
struct RankId {
  int rank = 0, ranks = 1;
  std::string launch_id{};  // unique; see check_shared
};

// What the ranks do in a temporary folder.
struct RankTasks {
  std::function<void(const std::filesystem::path&)> begin;     // rank 0, before the others start
  std::function<void(const std::filesystem::path&)> own_part;  // every rank, at the same time
  std::function<void(const std::filesystem::path&)> end;       // rank 0, after all parts are done
};

// All ranks write a folder together: it is complete or absent. Every rank calls this in a background thread;
// the ranks tell each other by files how far they are, since collectives belong to the main thread. If one
// fails, all throw its message. `stop` ends waiting for ranks that may be gone; the folder is then absent if
// a part was missing. `marker`: a file that `end` writes; without it the folder is not complete.
void write_on_all_ranks(const std::filesystem::path& folder, const std::string& marker, const RankId& self,
                        const RankTasks& tasks, const std::stop_token& stop);

// A collective call: checks that all ranks see the same run folder, which write_on_all_ranks needs; if not, a
// UserError on all of them. Returns a new id for this launch. `device`: of the tensors that the group sends.
std::string check_shared(const std::filesystem::path& run, comm::Group& all, at::Device device = at::kCPU);

}  // namespace dpo::run
