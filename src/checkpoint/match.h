// checkpoint: files of models, to load and to save: Hugging Face folders and the original's policy.pt. The
// checkpoints of a run, which also hold what resuming needs, are in src/run (snapshot.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/formats/weight_files.h"
#include "model/tables/table.h"

namespace dpo::checkpoint {

// The stored tensor for each tensor of a table.
struct Match {
  std::vector<std::vector<std::size_t>> sources;  // [block][tensor]: index of the stored tensor
  // For a model with tied embeddings: the file's head matrix, if it has one besides the embedding. If the two
  // differ, the model is not tied after all.
  std::optional<std::size_t> second_head;
};

// Finds every tensor of the table in the files, also under the names of older files, of models without a head
// and of wrappers. All missing, unknown, wrongly shaped and non-float tensors are reported in one UserError,
// each beginning with `origin`.
Match match_tensors(const model::TensorTable& table, const std::vector<StoredTensor>& stored,
                    const std::string& origin);

// A name without the prefixes of wrappers (DDP, FSDP, torch.compile).
std::string without_wrappers(std::string name);

}  // namespace dpo::checkpoint
