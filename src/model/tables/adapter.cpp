#include "model/tables/adapter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"

namespace dpo::model {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr const char* kAllLinear = "all-linear";

// The module that a tensor belongs to: its name without the last part.
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }
std::string module_of(const TensorInfo& tensor) { return module_of(tensor.name); }

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Whether a module's name is `end`, or ends in it after a dot.
bool is_named(const std::string& module, const std::string& end) {
  return module == end || module.ends_with("." + end);
}

bool is_any_of(const std::string& module, const std::vector<std::string>& ends) {
  return std::ranges::any_of(ends, [&](const std::string& end) { return is_named(module, end); });
}

// A router, which tensor-parallel ranks do not split, or an expert. Layers do not compute with them by
// `linear`, or not on a part of them, so they cannot have LoRA.
bool is_of_mixture(const Block& block, const TensorInfo& tensor) {
  return block.kind == BlockKind::layer && tensor.multiplies_tokens &&
         (!tensor.split || !tensor.stack.empty());
}

// What `linear` multiplies by: the matrices of the layers.
bool can_have_lora(const Block& block, const TensorInfo& tensor) {
  return block.kind == BlockKind::layer && tensor.multiplies_tokens && tensor.name.ends_with(kWeight) &&
         !is_of_mixture(block, tensor);
}

template <class Test>
bool any_tensor(const TensorTable& model, const Test& test) {
  return std::ranges::any_of(model.blocks, [&](const Block& block) {
    return std::ranges::any_of(block.tensors, [&](const TensorInfo& tensor) { return test(block, tensor); });
  });
}

std::regex compiled(const char* key, const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw UserError(fmt::format("{}: '{}' is not a valid regular expression: {}", key, text, error.what()));
  }
}

template <class T>
using Patterns = std::vector<std::pair<std::string, T>>;

// As PEFT matches the keys of rank_pattern and alpha_pattern: the end of a name, as a regular expression.
std::regex end_pattern(const char* key, const std::string& pattern) {
  return compiled(key, "(.*\\.)?(" + pattern + ")");
}

template <class T>
T value_for(const char* key, const Patterns<T>& patterns, const std::string& module, T otherwise) {
  for (const auto& [pattern, value] : patterns)
    if (std::regex_match(module, end_pattern(key, pattern))) return value;
  return otherwise;
}

bool is_tied(const TensorTable& model) {
  return std::ranges::none_of(model.blocks.back().tensors,
                              [&](const TensorInfo& tensor) { return tensor.name == model.head_name; });
}

// One entry of `targets`.
class Target {
 public:
  explicit Target(const std::string& text) : text_(text) {
    if (is_expression(text)) expression_ = compiled("adapter.targets", text);
  }

  bool matches(const std::string& module) const {
    if (expression_) return std::regex_match(module, *expression_);
    return text_ == kAllLinear || is_named(module, text_);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::optional<std::regex> expression_;
};

// What is wrong with a target that matches no matrix which can have LoRA.
std::string problem_of(const TensorTable& model, const Target& target) {
  const std::vector<std::string> names = linear_names(model);
  if (target.matches(module_of(model.embedding_name)) || target.matches(module_of(model.head_name)))
    return fmt::format(
        "adapter.targets: '{}' is the embedding or the head, which cannot have LoRA{}", target.text(),
        is_tied(model) ? std::string()
                       : fmt::format("; adapter.modules_to_save=[{}] trains it as a whole", target.text()));
  if (any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
        return is_of_mixture(block, tensor) && target.matches(module_of(tensor));
      }))
    return fmt::format(
        "adapter.targets: '{}' is an expert or a router, which cannot have LoRA, expected all-linear or {}",
        target.text(), fmt::join(names, ", "));
  return fmt::format(
      "adapter.targets: no matrix of the model matches '{}', expected all-linear, a regular expression, or "
      "ends of names such as {}{}",
      target.text(), fmt::join(names, ", "), did_you_mean(target.text(), names));
}

// Every target must match a matrix: a misspelt one would be ignored silently.
void check_targets(const TensorTable& model, const std::vector<Target>& targets) {
  std::vector<std::string> problems;
  for (const Target& target : targets)
    if (!any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
          return can_have_lora(block, tensor) && target.matches(module_of(tensor));
        }))
      problems.push_back(problem_of(model, target));
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Every pattern must match a module with LoRA.
template <class T>
void check_patterns(const TensorTable& model, const char* key, const Patterns<T>& patterns,
                    const ModuleFilter& has_lora) {
  std::vector<std::string> problems;
  for (const auto& [pattern, value] : patterns) {
    const std::regex expression = end_pattern(key, pattern);
    if (any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
          const std::string module = module_of(tensor);
          return can_have_lora(block, tensor) && has_lora(module) && std::regex_match(module, expression);
        }))
      continue;
    const std::vector<std::string> names = linear_names(model);
    problems.push_back(
        fmt::format("{}: no module with LoRA matches '{}', expected an end of a name such as {}{}", key,
                    pattern, fmt::join(names, ", "), did_you_mean(pattern, names)));
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Empty if the module can be trained as a whole.
std::string problem_of_module(const TensorTable& model, const std::string& module) {
  const auto is_its = [&](const TensorInfo& tensor) { return is_named(module_of(tensor), module); };
  const bool is_embedding = is_named(module_of(model.embedding_name), module);
  if (is_tied(model) && (is_embedding || is_named(module_of(model.head_name), module)))
    return fmt::format(
        "adapter.modules_to_save: '{}' is tied to the {} in this model, and cannot be trained with an "
        "adapter",
        module, is_embedding ? "head" : "embedding");
  if (any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
        return is_of_mixture(block, tensor) && is_its(tensor);
      }))
    return fmt::format(
        "adapter.modules_to_save: '{}' is an expert or a router, which cannot be trained with an adapter",
        module);
  if (!any_tensor(model, [&](const Block&, const TensorInfo& tensor) { return is_its(tensor); }))
    return fmt::format(
        "adapter.modules_to_save: the model has no module '{}', expected the end of a name such as {}",
        module, last_part(module_of(model.head_name)));
  return "";
}

void check_modules_to_save(const TensorTable& model, const std::vector<std::string>& modules) {
  std::vector<std::string> problems;
  for (const std::string& module : modules)
    if (std::string problem = problem_of_module(model, module); !problem.empty())
      problems.push_back(std::move(problem));
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Tensor-parallel ranks split B as the matrix splits its outputs, or A as it splits its inputs.
void add_lora(std::vector<TensorInfo>& tensors, const TensorInfo& matrix, const AdapterSettings& settings) {
  const std::string module = module_of(matrix);
  const std::int64_t r = value_for("adapter.rank_pattern", settings.rank_pattern, module, settings.r);
  const double alpha = value_for("adapter.alpha_pattern", settings.alpha_pattern, module, settings.alpha);
  const int out = matrix.transposed ? 1 : 0, in = 1 - out;
  const bool splits_out = matrix.split == out, splits_in = matrix.split == in;
  const std::int64_t outputs = matrix.shape[static_cast<std::size_t>(out)];
  TensorInfo a{module + ".lora_A.weight", {r, matrix.shape[static_cast<std::size_t>(in)]}, std::nullopt};
  a.multiplies_tokens = true;
  a.init = Init::kaiming_uniform;
  if (splits_in) {
    a.split = 1;
    a.sections = matrix.sections;
  }
  TensorInfo b{module + ".lora_B.weight", {outputs, r}, std::nullopt};
  b.multiplies_tokens = true;
  b.init = Init::zeros;
  b.scale = alpha / (settings.rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
  if (splits_out) {
    b.split = 0;
    b.sections = matrix.sections;
  }
  tensors.push_back(std::move(a));
  tensors.push_back(b);
  if (!settings.dora) return;
  TensorInfo magnitude{module + ".lora_magnitude_vector", {outputs}, b.split};
  magnitude.init = Init::ones;
  magnitude.sections = b.sections;
  tensors.push_back(std::move(magnitude));
}

}  // namespace

bool is_expression(const std::string& target) {
  return target.find_first_of("*+?()[]{}|\\^$") != std::string::npos;
}

std::vector<std::string> linear_names(const TensorTable& model) {
  std::set<std::string> names;
  for (const Block& block : model.blocks)
    for (const TensorInfo& tensor : block.tensors)
      if (can_have_lora(block, tensor)) names.insert(last_part(module_of(tensor)));
  return {names.begin(), names.end()};
}

TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings) {
  const std::vector<Target> targets(settings.targets.begin(), settings.targets.end());
  check_targets(model, targets);
  const ModuleFilter has_lora = [&](const std::string& module) {
    return std::ranges::any_of(targets, [&](const Target& target) { return target.matches(module); });
  };
  check_patterns(model, "adapter.rank_pattern", settings.rank_pattern, has_lora);
  check_patterns(model, "adapter.alpha_pattern", settings.alpha_pattern, has_lora);
  return adapter_table(model, settings, has_lora);
}

TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings,
                          const ModuleFilter& has_lora) {
  check_modules_to_save(model, settings.modules_to_save);
  TensorTable adapter;
  adapter.old_prefixes = model.old_prefixes;  // PEFT uses the names of the model in memory
  for (const Block& block : model.blocks) {
    Block& added = adapter.blocks.emplace_back(Block{block.kind, block.prefix, {}});
    for (const TensorInfo& tensor : block.tensors) {
      const std::string module = module_of(tensor);
      if (is_any_of(module, settings.modules_to_save))
        added.tensors.push_back(tensor);
      else if (can_have_lora(block, tensor) && has_lora(module))
        add_lora(added.tensors, tensor, settings);
    }
  }
  return adapter;
}

}  // namespace dpo::model
