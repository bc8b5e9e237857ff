#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/spec/shape.h"

namespace dpo::model {

// Initialization of a tensor in a new model: normal around 0 (smaller for GPT-2's residual projections, whose
// sum grows with the layers), zeros, ones, or uniform within 1 / sqrt(inputs) as in nn.Linear.
enum class Init { normal, residual, zeros, ones, kaiming_uniform };

// Describes a tensor of a model, without its values.
struct TensorInfo {
  std::string name;                 // as Hugging Face files name it
  std::vector<std::int64_t> shape;  // as stored in those files
  std::optional<int> split;  // the dimension that tensor parallelism splits; nullopt: every rank has all
  bool is_linear = false;    // the weight of a linear layer (embeddings are looked up)
  Init init = Init::normal;
  // Sections of the split dimension, each split separately: queries, keys, values.
  std::vector<std::int64_t> sections = {};
  bool transposed = false;  // a matrix that is stored [in, out]
  double scale = 1;         // factor of matmuls with it: alpha / r for LoRA's B
  // Layers see consecutive tensors with the same stack, all of one shape, as one tensor of this name: the
  // experts of a mixture, [experts, out, in].
  std::string stack = {};
  // If true, tensors of one stack are instead the rows of one matrix (or parts of one vector) of that name,
  // provided that they are adjacent in the flat buffer. Queries, keys and values are then one matmul.
  // Otherwise a layer sees them as they are.
  bool joined = false;
  double token_share = 1;  // share of the tokens that are multiplied by it; below 1 for experts

  std::int64_t count() const;
};

enum class BlockKind { embedding, layer, head };

// A unit that is gathered, computed and released together: the embedding, one layer, or the head.
struct Block {
  BlockKind kind{};
  std::string prefix;  // of the names of a layer's tensors; empty for embedding and head
  std::vector<TensorInfo> tensors;
  std::size_t layer = 0;  // number of a layer, counted from 0

  std::int64_t count() const;  // parameters
  // Parameters in matrices that a token is multiplied by, on average.
  std::int64_t matmul_count() const;
  std::int64_t count_on_rank(
      std::int64_t degree) const;  // parameters on one of `degree` tensor-parallel ranks
};

// The blocks of a model in the order of the forward pass. A tied head has only the final norm: its matrix
// belongs to the embedding and is counted there, though response tokens are multiplied by it too.
struct TensorTable {
  std::vector<Block> blocks;
  std::int64_t head_matmul_count = 0;     // vocabulary x hidden, tied or not
  std::string embedding_name, head_name;  // of the two matrices that may be tied
  std::string base_prefix;                // "transformer."; files of the model without its head leave it out
  std::vector<std::pair<std::string, std::string>> old_names;     // name in some files, name here
  std::vector<std::pair<std::string, std::string>> old_prefixes;  // prefix in some files, prefix here
  std::vector<std::string> buffers;      // suffixes of names in older files that are not parameters
  std::vector<std::string> other_parts;  // prefixes of names that are not read: an image tower's

  std::int64_t count() const;         // all parameters
  std::int64_t active_count() const;  // without those of experts that a token is not sent to

  std::size_t first(BlockKind kind) const;  // the first block of this kind
  bool is_tied() const;                     // true if the head has no matrix and uses the embedding's
};

TensorTable tensor_table(const ModelShape& shape);

// True if a frozen tensor may be quantized, as the matrices of the layers may. A router's matrix, which is
// small and which tensor-parallel ranks do not split, may not.
bool is_quantizable(const Block& block, const TensorInfo& tensor);

// Rows of float32 logits that the head computes at a time, which bounds their memory. It computes twice as
// many rows of 16-bit logits.
inline constexpr std::int64_t kHeadChunkRows = 4096;

}  // namespace dpo::model
