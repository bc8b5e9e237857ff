// Declares one function per kind of layer. table.cpp makes the table of a whole model from it.
#pragma once

#include <string>
#include <vector>

#include "model/spec/table.h"

namespace dpo::model {

struct FamilyTable {
  std::vector<TensorInfo> embedding;
  std::string layer_prefix;       // "transformer.h." + number + "."
  std::vector<TensorInfo> layer;  // names without the prefix
  std::vector<TensorInfo> head;
  std::string head_name;    // name of the head's matrix, even if it is tied to the embedding's
  std::string base_prefix;  // see TensorTable
  std::vector<std::pair<std::string, std::string>> old_names;     // see TensorTable
  std::vector<std::pair<std::string, std::string>> old_prefixes;  // see TensorTable
  std::vector<std::string> buffers;                               // see TensorTable
  std::vector<std::string> other_parts;                           // see TensorTable
};

FamilyTable gpt2_table(const ModelShape& shape);
FamilyTable gpt_neox_table(const ModelShape& shape);
FamilyTable gptj_table(const ModelShape& shape);
FamilyTable llama_table(const ModelShape& shape);  // Llama, Mistral, Qwen, Phi-3, SmolLM3, Granite
FamilyTable gemma_table(const ModelShape& shape);
FamilyTable olmo2_table(const ModelShape& shape);
FamilyTable cohere_table(const ModelShape& shape);
FamilyTable mixture_table(const ModelShape& shape);  // Mixtral, Qwen3 MoE, OLMoE

// Returns Llama's names outside of the layers, without any layer tensors.
FamilyTable llama_like_table(const ModelShape& shape);

// Tensor-parallel ranks split the vocabulary by rows, in the embedding and in the head.
inline TensorInfo embedding_tensor(std::string name, const ModelShape& s) {
  return {std::move(name), {s.vocabulary, s.hidden}, 0, false};
}
inline TensorInfo head_tensor(std::string name, const ModelShape& s) {
  return {std::move(name), {s.vocabulary, s.hidden}, 0, true};
}
inline Init init_of_vector(const std::string& name) {
  return name.ends_with(".bias") ? Init::zeros : Init::ones;
}
// Describes a norm, or a bias of outputs that are summed over ranks. Each rank holds it whole.
inline TensorInfo whole_vector(std::string name, std::int64_t size) {
  const Init init = init_of_vector(name);
  return {std::move(name), {size}, std::nullopt, false, init};
}
inline TensorInfo split_vector(std::string name, std::int64_t size) {
  const Init init = init_of_vector(name);
  return {std::move(name), {size}, 0, false, init};
}
// Describe a matrix [out, in] whose output dimension is split over tensor-parallel ranks (column-parallel),
// and one whose input dimension is split (row-parallel).
inline TensorInfo split_outputs(std::string name, std::int64_t out, std::int64_t in) {
  return {std::move(name), {out, in}, 0, true};
}
inline TensorInfo split_inputs(std::string name, std::int64_t out, std::int64_t in) {
  return {std::move(name), {out, in}, 1, true};
}

// Adds tensors that a layer sees as one if they are next to each other in memory.
inline void add_joined(FamilyTable& table, const std::string& name, std::vector<TensorInfo> parts) {
  for (TensorInfo& part : parts) {
    part.stack = name;
    part.joined = true;
    table.layer.push_back(std::move(part));
  }
}

// Add the matrices of Llama's attention, those of its gated MLP, and the biases of both that `shape` names.
void add_attention(FamilyTable& table, const ModelShape& shape);
void add_gated_mlp(FamilyTable& table, const ModelShape& shape);
void add_biases(FamilyTable& table, const ModelShape& shape);

}  // namespace dpo::model
