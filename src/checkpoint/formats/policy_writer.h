#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {

// Writes a policy.pt as the original does: torch.save({"step_idx": 0, "state": STATE_DICT, "metrics": {}}),
// which torch.load reads, also with weights_only. `shared`: more names, each for a tensor of `tensors` whose
// storage it shares, as a tied head does. The file is complete or absent.
void write_policy(const std::filesystem::path& path, const std::vector<Source>& tensors,
                  const std::vector<std::pair<std::string, std::string>>& shared);

}  // namespace dpo::checkpoint
