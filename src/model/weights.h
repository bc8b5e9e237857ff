// model: the families over LibTorch: their blocks, the pass over them, generation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "model/tables/layout.h"
#include "model/tables/table.h"

namespace dpo::model {

struct NamedTensor {
  std::string name;  // within its block: the Hugging Face name without the block's prefix
  at::Tensor tensor;
};

// The tensors of one block, in the order of its table: views of one flat buffer, so that a block can be
// moved, reduced and updated as one array. What lies between them in the buffer is zero. A rank's shard of
// such a buffer is flat alone: tensors may begin or end on other ranks.
struct BlockWeights {
  at::Tensor flat;
  std::vector<NamedTensor> tensors;
  std::shared_ptr<comm::Group> partners = {};  // tensor-parallel ranks, where there are several

  const at::Tensor& operator()(std::string_view name) const;
  const at::Tensor* find(std::string_view name) const;  // null where the block has no such tensor
};

// All parameters of a model, or their gradients, or another array for each of them.
struct Weights {
  std::vector<BlockWeights> blocks;  // as in the table

  at::ScalarType dtype() const { return blocks.front().flat.scalar_type(); }
  at::Device device() const { return blocks.front().flat.device(); }
};

// The tensors of a block as views of its flat buffer, which is whole.
BlockWeights block_in(const at::Tensor& flat, const Block& block, const Layout& layout);

// Zeros for what a rank holds of the table's tensors.
Weights make_weights(const TensorTable& table, at::ScalarType dtype, at::Device device,
                     const Layout& layout = {});

}  // namespace dpo::model
