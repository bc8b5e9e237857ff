// model contains the model families over LibTorch: their blocks, the pass over the blocks, and generation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "model/matrix.h"
#include "model/spec/layout.h"
#include "model/spec/table.h"
#include "ops/split_floats.h"

namespace dpo::model {

struct QuantizedBlock;

struct NamedTensor {
  std::string name;  // within its block: the Hugging Face name without the block's prefix
  at::Tensor tensor;
  bool transposed = false;  // a matrix that is stored [in, out]
  double scale = 1;         // factor of matmuls with it
  bool split = false;       // over tensor-parallel ranks; otherwise each rank has all of it
  std::size_t parts = 1;    // number of the block's tensors in an operand
  std::shared_ptr<ops::GradientSum> sum = {};  // for an autograd leaf: where its gradient is added
  std::shared_ptr<bool> overwrite = {};        // for a gradient: see ops::GradientSum
};

// Returns the buffer of a gradient, without a tensor if `gradient` is null.
ops::GradientSum sum_of(const NamedTensor* gradient);

// The tensors of one block, in the order of its table. They are views of one flat buffer, so that a block can
// be copied, reduced and updated as one array. Padding between them is zero. A rank's shard of such a buffer
// has only `flat`, since tensors may begin or end on other ranks.
struct BlockWeights {
  at::Tensor flat;
  std::vector<NamedTensor> tensors;
  std::vector<NamedTensor> operands = {};          // the tensors as layers use them: a stack is one tensor
  std::shared_ptr<comm::Group> tensor_group = {};  // null without tensor parallelism
  Dropout dropout = {};                            // for every matrix with LoRA
  bool fp8 = false;                                // matmuls with its matrices in FP8, see ops::linear
  // Second part of float32 weights that are stored in two parts, of which `flat` is the first.
  ops::FloatRest rest = {};
  // Set for a frozen block with quantized matrices (model/quantized_block.h). Then `flat` has the bytes of
  // the whole block, and `tensors` is empty.
  std::shared_ptr<const QuantizedBlock> quantized = {};

  // Returns an operand by name.
  const at::Tensor& operator()(std::string_view name) const;
  const NamedTensor* find(std::string_view name) const;  // null if the block has no such tensor

  // Return NAME.weight with its LoRA, if the block has one, and NAME.bias, undefined if the block has none.
  Matrix matrix(const std::string& name) const;
  at::Tensor bias(const std::string& name) const;
};

// All parameters of a model, or their gradients.
struct Weights {
  std::vector<BlockWeights> blocks;  // in the order of the table

  at::ScalarType dtype() const { return blocks.front().flat.scalar_type(); }
  // Returns float32 for weights that are stored in two parts.
  at::ScalarType exact_dtype() const { return blocks.front().rest.defined() ? at::kFloat : dtype(); }
  at::Device device() const { return blocks.front().flat.device(); }
};

// Returns the tensors of a block as views of its flat buffer, which must not be sharded.
BlockWeights block_views(const at::Tensor& flat, const Block& block, const Layout& layout);

// Returns the operands of a block followed by the adapter's operands for it. An operand of the adapter (a
// module that is trained as a whole) replaces the block's operand of the same name.
BlockWeights with_adapter(const BlockWeights& block, const BlockWeights& adapter);

// Applies with_adapter() to all blocks.
Weights with_adapter(const Weights& weights, const Weights& adapter);

// Merges an adapter, preferably in float32, into weights that this process holds whole. W + scale * B A is
// computed in float32 and rounded once.
void merge_adapter(Weights& weights, const Weights& adapter);

// Returns a rank's part of a block: its shard of the flat buffer, or the whole buffer with views.
BlockWeights rank_block(const at::Tensor& flat, const Block& block, const Layout& layout);

// Returns a rank's part of a block from the flat buffer of the whole block. It is a copy, unless it is all of
// it.
BlockWeights part_of_block(const at::Tensor& whole, const Block& block, const Layout& layout);

// Returns zeros for a rank's part of the table's tensors.
Weights make_weights(const TensorTable& table, at::ScalarType dtype, at::Device device,
                     const Layout& layout = {});

}  // namespace dpo::model
