// checkpoint: models to and from disk: which tensor of a file is which of a model's, loading, saving.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/formats/weight_files.h"
#include "model/tables/table.h"

namespace dpo::checkpoint {

// Which stored tensor fills each of a table's.
struct Match {
  std::vector<std::vector<std::size_t>> sources;  // [block][tensor]: the number of the stored tensor
  // Of a model whose head is tied to its embedding: the file's own head matrix, where it has both. If it
  // differs from the embedding, the model is not tied after all.
  std::optional<std::size_t> second_head;
};

// Finds every tensor of the table among those of the files, also under the names that older files, files of
// the model without its head and wrappers of a model use. Missing, unknown, wrongly shaped and non-float
// tensors are one UserError with all of them, each beginning with `origin`.
Match match_tensors(const model::TensorTable& table, const std::vector<StoredTensor>& stored,
                    const std::string& origin);

// A name without what wrappers of a model (parallel training, compilation) put into it.
std::string without_wrappers(std::string name);

}  // namespace dpo::checkpoint
