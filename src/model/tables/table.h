#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/tables/shape.h"

namespace dpo::model {

// How a tensor of a new model is filled: with numbers around 0 (a residual projection of GPT-2 with smaller
// ones, since their sum grows with the layers), with zeros or with ones.
enum class Init { normal, residual, zeros, ones };

struct Tensor {
  std::string name;                 // as Hugging Face files name it
  std::vector<std::int64_t> shape;  // as stored in those files
  std::optional<int> split;         // the dimension that tensor parallelism splits; none: every rank holds it
  bool multiplies_tokens = false;   // a matrix that every token passes through (embeddings only look up)
  Init init = Init::normal;
  int sections = 1;  // that the split dimension consists of, each divided by itself: queries, keys and values

  std::int64_t count() const;
};

enum class BlockKind { embedding, layer, head };

// What is gathered, computed and released together: the embedding, one layer, the head.
struct Block {
  BlockKind kind{};
  std::string prefix;  // that the names of a layer's tensors begin with; empty for embedding and head
  std::vector<Tensor> tensors;

  std::int64_t count() const;         // parameters
  std::int64_t matmul_count() const;  // of them, those in matrices that tokens pass through
  std::int64_t count_on_rank(
      std::int64_t degree) const;  // parameters on one of `degree` tensor-parallel ranks
};

// The blocks of a model in the order of the forward pass. A tied head has the final norm alone: its matrix
// is the embedding's and counted there, though response tokens pass through it all the same.
struct TensorTable {
  std::vector<Block> blocks;
  std::int64_t head_matmul_count = 0;     // vocabulary x hidden, tied or not
  std::string embedding_name, head_name;  // of the two matrices that may be tied
  std::string base_prefix;                // "transformer."; files of the model without its head leave it out
  std::vector<std::pair<std::string, std::string>> old_names;  // another name in some files, the name here
  std::vector<std::string> buffers;  // ends of names that older files hold and that are no parameters

  std::int64_t count() const;              // all parameters, P
  std::int64_t body_matmul_count() const;  // N without the head
};

TensorTable tensor_table(const Shape& shape);

}  // namespace dpo::model
