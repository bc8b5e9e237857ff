// Describes models as llama.cpp does: architectures, settings, and names of tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/formats/gguf.h"
#include "model/spec/settings.h"
#include "model/spec/table.h"

namespace dpo::checkpoint {

// A family in llama.cpp.
struct GgufArchitecture {
  const char* name = nullptr;      // null if llama.cpp does not know the family
  bool rotates_neighbors = false;  // pairs of the rotary embedding are adjacent, not one of each half
  bool has_biases = false;         // of attention and MLP, where config.json asks for them
  bool fixed_head_dim = false;     // a head has hidden / heads dimensions
  bool head_is_tied = false;       // the head is always the embedding
  bool needs_head = false;         // a tied head is a copy of the embedding
};

GgufArchitecture gguf_architecture(model::Family family);

// Throws a UserError that lists what the model has and llama.cpp has not. Returns notes about differences
// that matter only to some texts.
std::vector<std::string> check_for_gguf(const model::ModelConfig& config);

// Returns the settings that llama.cpp reads from a file, without tokenizer and number formats.
GgufMetadata gguf_settings(const model::ModelConfig& config);

// Returns llama.cpp's name of a tensor, given its name in the model's table, such as blk.0.attn_q.weight. The
// name of a stack stands for its tensors.
std::string gguf_name(const model::TensorTable& table, const model::Block& block, const std::string& tensor,
                      model::Family family);

}  // namespace dpo::checkpoint
