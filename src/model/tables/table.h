#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/tables/shape.h"

namespace dpo::model {

// How a tensor of a new model is initialized: normal around 0 (smaller for GPT-2's residual projections,
// whose sum grows with the layers), zeros or ones; or as nn.Linear does, uniform within 1 / sqrt(inputs).
enum class Init { normal, residual, zeros, ones, kaiming_uniform };

// A tensor of a model: its description, not its values.
struct TensorInfo {
  std::string name;                 // as Hugging Face files name it
  std::vector<std::int64_t> shape;  // as stored in those files
  std::optional<int> split;         // the dimension that tensor parallelism splits; none: every rank has all
  bool multiplies_tokens = false;   // a matrix that tokens are multiplied by (embeddings are looked up)
  Init init = Init::normal;
  std::vector<std::int64_t> sections =
      {};                   // of the split dimension, each split by itself: queries, keys, values
  bool transposed = false;  // a matrix that is stored [in, out]
  double scale = 1;         // that a product with it is multiplied by: alpha / r for LoRA's B
  // Layers see consecutive tensors with the same stack, all of one shape, as one tensor of this name: the
  // experts of a mixture, [experts, out, in].
  std::string stack = {};
  // Instead, they are the rows of one matrix (or parts of one vector) of that name, if nothing is between
  // them in the flat buffer: queries, keys and values are then one product. Else a layer sees them as they
  // are.
  bool joined = false;
  double token_share = 1;  // of the tokens, those that are multiplied by it: a router chooses

  std::int64_t count() const;
};

enum class BlockKind { embedding, layer, head };

// What is gathered, computed and released together: the embedding, one layer, the head.
struct Block {
  BlockKind kind{};
  std::string prefix;  // that the names of a layer's tensors begin with; empty for embedding and head
  std::vector<TensorInfo> tensors;

  std::int64_t count() const;  // parameters
  // Those in matrices that a token is multiplied by, on average.
  std::int64_t matmul_count() const;
  std::int64_t count_on_rank(
      std::int64_t degree) const;  // parameters on one of `degree` tensor-parallel ranks
};

// The blocks of a model in the order of the forward pass. A tied head has only the final norm: its matrix
// is the embedding's and counted there, though response tokens are multiplied by it all the same.
struct TensorTable {
  std::vector<Block> blocks;
  std::int64_t head_matmul_count = 0;     // vocabulary x hidden, tied or not
  std::string embedding_name, head_name;  // of the two matrices that may be tied
  std::string base_prefix;                // "transformer."; files of the model without its head leave it out
  std::vector<std::pair<std::string, std::string>> old_names;     // a name in some files, the name here
  std::vector<std::pair<std::string, std::string>> old_prefixes;  // the same for beginnings of names
  std::vector<std::string> buffers;      // suffixes of names in older files that are not parameters
  std::vector<std::string> other_parts;  // beginnings of names of what is not read: a tower for images

  std::int64_t count() const;              // all parameters
  std::int64_t active_count() const;       // without those of experts that a token is not sent to
  std::int64_t body_matmul_count() const;  // parameters of the layers' matrices, likewise
};

TensorTable tensor_table(const ModelShape& shape);

// Whether a frozen tensor may be in few bits: the matrices of the layers. A router's, which is small and
// which tensor-parallel ranks do not split, stays as it is.
bool may_be_small(const Block& block, const TensorInfo& tensor);

// Rows of float32 logits that the head computes at a time, which bounds their memory; twice as many where it
// computes with 16 bits.
inline constexpr std::int64_t kHeadChunkRows = 4096;

}  // namespace dpo::model
