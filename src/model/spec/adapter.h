#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/spec/table.h"

namespace dpo::model {

// Settings of LoRA, which mean the same as in PEFT's LoraConfig.
struct AdapterSettings {
  std::int64_t r = 16;
  double alpha = 32;
  double dropout = 0;
  std::vector<std::string> targets = {"all-linear"};
  bool rslora = false;  // multiply by alpha / sqrt(r) instead of alpha / r
  bool dora = false;
  std::vector<std::string> modules_to_save = {};
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern = {};  // the first that matches counts
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
};

// Returns true if a matrix has LoRA, given the name of its module: "model.layers.0.self_attn.q_proj".
using ModuleFilter = std::function<bool(const std::string& module)>;

// Returns the tensors of an adapter, in the same blocks as the model's. Each module NAME with LoRA has
// NAME.lora_A.weight [r, in], NAME.lora_B.weight [out, r] and, with DoRA, NAME.lora_magnitude_vector [out].
// Each of modules_to_save has its own tensors. Throws a UserError if a setting matches nothing or cannot be
// trained.
TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings);

// Overload for modules that are already known; `targets` is not read. Errors begin with `origin`.
TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings,
                          const ModuleFilter& has_lora, const std::string& origin);

// Returns the model's table in which no tensor is joined to one that has an adapter. Policy and reference
// then compute with the same matmuls, so that the policy starts bit-identical to the reference.
TensorTable separated(TensorTable model, const TensorTable& adapter);

// Return the names by which PEFT finds exactly the modules with LoRA, and those that are trained as a whole.
// PEFT matches the names of targets with all modules, so an expression may match more modules there than
// here.
std::vector<std::string> peft_targets(const TensorTable& model, const AdapterSettings& settings);
std::vector<std::string> peft_modules_to_save(const TensorTable& model, const AdapterSettings& settings);

// Returns a tensor's name in PEFT's files, which use the names of the model in memory. Some of these differ
// from the names in the model's own files.
std::string peft_name(const TensorTable& table, const std::string& name);

}  // namespace dpo::model
