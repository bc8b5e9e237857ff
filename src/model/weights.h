// model: model families over LibTorch: their blocks, the pass over them, generation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "model/matrix.h"
#include "model/tables/layout.h"
#include "model/tables/table.h"
#include "ops/split_floats.h"

namespace dpo::model {

struct SmallBlock;

struct NamedTensor {
  std::string name;  // within its block: the Hugging Face name without the block's prefix
  at::Tensor tensor;
  bool transposed = false;                     // a matrix that is stored [in, out]
  double scale = 1;                            // of products with it
  bool split = false;                          // over tensor-parallel ranks; otherwise each has all of it
  std::size_t parts = 1;                       // of an operand: the block's tensors that it consists of
  std::shared_ptr<ops::GradientSum> sum = {};  // of a leaf of autograd: where its gradient is added
  std::shared_ptr<bool> overwrite = {};        // of a gradient: see ops::GradientSum
};

// The tensors of one block, in the order of its table: views of one flat buffer, so that a block can be
// copied, reduced and updated as one array. Padding between them is zero. A rank's shard of such a buffer has
// `flat` only: tensors may begin or end on other ranks.
struct BlockWeights {
  at::Tensor flat;
  std::vector<NamedTensor> tensors;
  std::vector<NamedTensor> operands = {};  // what layers compute with: the same, but each stack as one tensor
  std::shared_ptr<comm::Group> tensor_group = {};  // null without tensor parallelism
  Dropout dropout = {};                            // of every matrix with LoRA
  bool fp8 = false;                                // products of its matrices, see ops::linear
  ops::FloatRest rest = {};  // of float32 weights in two parts, of which `flat` is the first
  // Of a frozen block whose matrices are in few bits (model/small_block.h): then `flat` has the bytes of all
  // of it, and there are no tensors.
  std::shared_ptr<const SmallBlock> small = {};

  // Operands by name.
  const at::Tensor& operator()(std::string_view name) const;
  const NamedTensor* find(std::string_view name) const;  // null if the block has no such tensor

  // NAME.weight with its LoRA, if the block has one; and NAME.bias, undefined if the block has none.
  Matrix matrix(const std::string& name) const;
  at::Tensor bias(const std::string& name) const;
};

// All parameters of a model, or their gradients.
struct Weights {
  std::vector<BlockWeights> blocks;  // as in the table

  at::ScalarType dtype() const { return blocks.front().flat.scalar_type(); }
  // Float32 also of weights in two parts.
  at::ScalarType exact_dtype() const { return blocks.front().rest.defined() ? at::kFloat : dtype(); }
  at::Device device() const { return blocks.front().flat.device(); }
};

// The tensors of a block as views of its flat buffer, which is not sharded.
BlockWeights block_views(const at::Tensor& flat, const Block& block, const Layout& layout);

// A block with an adapter's tensors for it, which come last. What the adapter has under a name of the block's
// (a module that is trained as a whole) takes its place.
BlockWeights with_adapter(const BlockWeights& block, const BlockWeights& adapter);

// The same of all blocks.
Weights with_adapter(const Weights& weights, const Weights& adapter);

// Merges an adapter, best in float32, into weights that this process holds whole: W + scale * B A is computed
// in float32 and rounded once.
void merge_adapter(Weights& weights, const Weights& adapter);

// What a rank holds of a block: its shard of the flat buffer, or the whole buffer with views.
BlockWeights rank_block(const at::Tensor& flat, const Block& block, const Layout& layout);

// The same from the flat buffer of the whole block: a copy, unless it is all of it.
BlockWeights part_of_block(const at::Tensor& whole, const Block& block, const Layout& layout);

// Zeros for what a rank holds of the table's tensors.
Weights make_weights(const TensorTable& table, at::ScalarType dtype, at::Device device,
                     const Layout& layout = {});

}  // namespace dpo::model
