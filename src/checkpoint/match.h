// checkpoint loads and saves the files of models: Hugging Face folders and the original's policy.pt. The
// checkpoints of a run, which also contain the state for resuming, are in src/run (snapshot.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/formats/weight_files.h"
#include "model/spec/table.h"

namespace dpo::checkpoint {

// The stored tensor for each tensor of a table.
struct Match {
  std::vector<std::vector<std::size_t>> sources;  // [block][tensor]: index of the stored tensor
  // Index of the head matrix in the files of a model with tied embeddings, if they have one in addition to
  // the embedding. If the two differ, the model is in fact not tied.
  std::optional<std::size_t> second_head;
};

// Finds every tensor of the table in the files. Names from older files, from models without a head and from
// wrappers are recognized. All missing, unknown, wrongly shaped and non-float tensors are reported in one
// UserError, each beginning with `origin`.
Match match_tensors(const model::TensorTable& table, const std::vector<StoredTensor>& stored,
                    const std::string& origin);

// Returns a name without the prefixes of wrappers (DDP, FSDP, torch.compile).
std::string without_wrappers(std::string name);

}  // namespace dpo::checkpoint
