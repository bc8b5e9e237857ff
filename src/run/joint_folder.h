#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include <ATen/core/Tensor.h>

#include "comm/group.h"

namespace dpo::run {

// Which of a run's processes this is.
struct Member {
  int rank = 0, ranks = 1;
  std::string start;  // a word for this start of the run (check_shared), which no other start of it has
};

// What the processes do in the temporary folder that they are given.
struct JointWork {
  std::function<void(const std::filesystem::path&)> begin;     // rank 0, before the others come
  std::function<void(const std::filesystem::path&)> own_part;  // every rank, at the same time
  std::function<void(const std::filesystem::path&)> end;       // rank 0, when all have done theirs
};

// Writes a folder by all ranks together: complete or absent. Every rank calls it, in a thread of its own:
// the ranks tell each other by files how far they are, since exchanges of the run's groups belong to its main
// thread. If one fails, all throw its words. Where a rank must wait for others that may be gone, `stop` ends
// the waiting; the folder is then incomplete, and absent, if a part of it was missing.
// `marker`: a file that `end` makes; the folder is complete with it alone.
void write_together(const std::filesystem::path& folder, const std::string& marker, const Member& who,
                    const JointWork& work, const std::stop_token& stop);

// Finds out, once and all ranks together, whether they see the same run folder, without which they cannot
// write one together; otherwise a UserError on all of them. Returns the word for this start. `device`: of the
// tensors that the group exchanges.
std::string check_shared(const std::filesystem::path& run, comm::Group& all, at::Device device = at::kCPU);

}  // namespace dpo::run
