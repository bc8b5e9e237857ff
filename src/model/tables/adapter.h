#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/tables/table.h"

namespace dpo::model {

// LoRA, as PEFT's LoraConfig describes it.
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

// Whether a matrix has LoRA, by the name of its module: "model.layers.0.self_attn.q_proj".
using ModuleFilter = std::function<bool(const std::string& module)>;

// The tensors of an adapter, in the same blocks as the model's. For each module NAME with LoRA:
// NAME.lora_A.weight [r, in], NAME.lora_B.weight [out, r] and with DoRA NAME.lora_magnitude_vector [out]; for
// each of modules_to_save its own tensors. A setting that matches nothing, or that cannot be trained, is a
// UserError.
TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings);

// The same for modules that are known already; `targets` is not read. An error begins with `origin`.
TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings,
                          const ModuleFilter& has_lora, const std::string& origin);

// The model's tensors with none joined to one that has an adapter. Policy and reference compute with the same
// products then, so that the policy begins as the reference to the bit.
TensorTable separated(TensorTable model, const TensorTable& adapter);

// Names by which PEFT finds exactly the modules with LoRA, and those that are trained as a whole. It matches
// names of targets with all modules, so that an expression may mean more to it than to us.
std::vector<std::string> peft_targets(const TensorTable& model, const AdapterSettings& settings);
std::vector<std::string> peft_modules_to_save(const TensorTable& model, const AdapterSettings& settings);

// A tensor's name in PEFT's files, which have the names of the model in memory. Some are others in its own
// files.
std::string peft_name(const TensorTable& table, const std::string& name);

}  // namespace dpo::model
