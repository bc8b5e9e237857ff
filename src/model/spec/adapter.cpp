#include "model/spec/adapter.h"

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

constexpr std::string_view kWeight = ".weight", kLoraA = ".lora_A.weight";
constexpr const char* kAllLinear = "all-linear";

// Returns the module that a tensor belongs to: its name without the last part.
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }
std::string module_of(const TensorInfo& tensor) { return module_of(tensor.name); }

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// True if a module's name is `end`, or ends in it after a dot.
bool is_named(const std::string& module, const std::string& end) {
  return module == end || module.ends_with("." + end);
}

// True if an entry of modules_to_save means the module of a tensor. Any end of its name counts, as in PEFT.
bool is_saved_by(const TensorTable& model, const TensorInfo& tensor, const std::string& end) {
  return module_of(tensor).ends_with(end) || module_of(peft_name(model, tensor.name)).ends_with(end);
}

// True for a router, which tensor-parallel ranks do not split, and for an expert. They cannot have LoRA,
// because layers do not call `linear` with them, or not with a part of them.
bool is_of_mixture(const Block& block, const TensorInfo& tensor) {
  return block.kind == BlockKind::layer && tensor.is_linear &&
         (!tensor.split || (!tensor.stack.empty() && !tensor.joined));
}

// True for the matrices that layers pass to `linear`.
bool can_have_lora(const Block& block, const TensorInfo& tensor) {
  return block.kind == BlockKind::layer && tensor.is_linear && tensor.name.ends_with(kWeight) &&
         !is_of_mixture(block, tensor);
}

template <class Test>
bool any_tensor(const TensorTable& model, const Test& test) {
  return std::ranges::any_of(model.blocks, [&](const Block& block) {
    return std::ranges::any_of(block.tensors, [&](const TensorInfo& tensor) { return test(block, tensor); });
  });
}

// Compiles an expression. `text` is the part of it that the user wrote, for the message.
std::regex compiled(const std::string& key, const std::string& text, const std::string& expression) {
  try {
    return std::regex(expression);
  } catch (const std::regex_error& error) {
    throw UserError(fmt::format("{}: '{}' is not a valid regular expression: {}", key, text, error.what()));
  }
}

template <class T>
using Patterns = std::vector<std::pair<std::string, T>>;

// Returns the expression with which PEFT matches a key of rank_pattern or alpha_pattern: the end of a name,
// as a regular expression.
std::regex end_pattern(const std::string& key, const std::string& pattern) {
  return compiled(key, pattern, "(.*\\.)?(" + pattern + ")");
}

template <class T>
T value_for(const std::string& key, const Patterns<T>& patterns, const std::string& module, T otherwise) {
  for (const auto& [pattern, value] : patterns)
    if (std::regex_match(module, end_pattern(key, pattern))) return value;
  return otherwise;
}

// True if a name in `targets` is a regular expression, which must match a whole module name.
bool is_expression(const std::string& target) {
  return target.find_first_of("*+?()[]{}|\\^$") != std::string::npos;
}

// One entry of `targets`.
class Target {
 public:
  explicit Target(const std::string& text) : text_(text) {
    if (is_expression(text)) expression_ = compiled("adapter.targets", text, text);
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

// Returns the last parts of the names of all modules that can have LoRA, sorted: "k_proj", "q_proj".
std::vector<std::string> linear_names(const TensorTable& model) {
  std::set<std::string> names;
  for (const Block& block : model.blocks)
    for (const TensorInfo& tensor : block.tensors)
      if (can_have_lora(block, tensor)) names.insert(last_part(module_of(tensor)));
  return {names.begin(), names.end()};
}

// Describes the problem of a target that matches no matrix which can have LoRA.
std::string problem_of(const TensorTable& model, const Target& target) {
  const std::vector<std::string> names = linear_names(model);
  if (target.matches(module_of(model.embedding_name)) || target.matches(module_of(model.head_name)))
    return fmt::format(
        "adapter.targets: '{}' is the embedding or the head, which cannot have LoRA{}", target.text(),
        model.is_tied() ? std::string()
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

// Requires that every target matches a matrix. Otherwise a misspelt one would be ignored silently.
void check_targets(const TensorTable& model, const std::vector<Target>& targets) {
  std::vector<std::string> problems;
  for (const Target& target : targets)
    if (!any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
          return can_have_lora(block, tensor) && target.matches(module_of(tensor));
        }))
      problems.push_back(problem_of(model, target));
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Describes the problem of a pattern, empty if there is none. Every pattern must match a module with LoRA,
// and patterns that match the same module must agree, because their order is not kept.
template <class T>
std::string problem_of_pattern(const TensorTable& model, const std::string& key, const Patterns<T>& patterns,
                               std::size_t number, const ModuleFilter& has_lora) {
  const auto& [pattern, value] = patterns[number];
  const std::regex expression = end_pattern(key, pattern);
  bool matches = false;
  for (const Block& block : model.blocks)
    for (const TensorInfo& tensor : block.tensors) {
      const std::string module = module_of(tensor);
      if (!can_have_lora(block, tensor) || !has_lora(module) || !std::regex_match(module, expression))
        continue;
      matches = true;
      for (std::size_t i = 0; i < number; ++i)
        if (patterns[i].second != value && std::regex_match(module, end_pattern(key, patterns[i].first)))
          return fmt::format("{}: '{}' and '{}' both match {}, with different values", key, patterns[i].first,
                             pattern, module);
    }
  const std::vector<std::string> names = linear_names(model);
  return matches ? ""
                 : fmt::format("{}: no module with LoRA matches '{}', expected an end of a name such as {}{}",
                               key, pattern, fmt::join(names, ", "), did_you_mean(pattern, names));
}

template <class T>
void check_patterns(const TensorTable& model, const std::string& key, const Patterns<T>& patterns,
                    const ModuleFilter& has_lora) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (std::string problem = problem_of_pattern(model, key, patterns, i, has_lora); !problem.empty())
      problems.push_back(std::move(problem));
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Describes why a module cannot be trained as a whole; empty if it can be.
std::string problem_of_module(const TensorTable& model, const std::string& key, const std::string& module) {
  const auto is_its = [&](const TensorInfo& tensor) { return is_saved_by(model, tensor, module); };
  const bool is_embedding = module_of(model.embedding_name).ends_with(module);
  const bool is_head = module_of(model.head_name).ends_with(module) ||
                       module_of(peft_name(model, model.head_name)).ends_with(module);
  if (model.is_tied() && (is_embedding || is_head))
    return fmt::format("{}: '{}' is tied to the {} in this model, and cannot be trained with an adapter", key,
                       module, is_embedding ? "head" : "embedding");
  if (any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
        return is_of_mixture(block, tensor) && is_its(tensor);
      }))
    return fmt::format("{}: '{}' is an expert or a router, which cannot be trained with an adapter", key,
                       module);
  if (!any_tensor(model, [&](const Block&, const TensorInfo& tensor) { return is_its(tensor); }))
    return fmt::format("{}: the model has no module '{}', expected the end of a name such as {}", key, module,
                       last_part(module_of(peft_name(model, model.head_name))));
  return "";
}

void check_modules_to_save(const TensorTable& model, const std::string& key,
                           const std::vector<std::string>& modules) {
  std::vector<std::string> problems;
  for (const std::string& module : modules)
    if (std::string problem = problem_of_module(model, key, module); !problem.empty())
      problems.push_back(std::move(problem));
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Adds the LoRA tensors of a matrix. Tensor-parallel ranks split B as the matrix splits its outputs, or A as
// it splits its inputs.
void add_lora(std::vector<TensorInfo>& tensors, const TensorInfo& matrix, const AdapterSettings& settings,
              const std::string& origin) {
  const std::string module = module_of(matrix);
  const std::int64_t r = value_for(origin + "rank_pattern", settings.rank_pattern, module, settings.r);
  const double alpha = value_for(origin + "alpha_pattern", settings.alpha_pattern, module, settings.alpha);
  const int out = matrix.transposed ? 1 : 0, in = 1 - out;
  const bool splits_out = matrix.split == out, splits_in = matrix.split == in;
  const std::int64_t outputs = matrix.shape[static_cast<std::size_t>(out)];
  TensorInfo a{module + std::string(kLoraA), {r, matrix.shape[static_cast<std::size_t>(in)]}, std::nullopt};
  a.is_linear = true;
  a.init = Init::kaiming_uniform;
  if (splits_in) {
    a.split = 1;
    a.sections = matrix.sections;
  }
  TensorInfo b{module + ".lora_B.weight", {outputs, r}, std::nullopt};
  b.is_linear = true;
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

// Returns the tensor as one that layers do not see as a part of another.
TensorInfo alone(TensorInfo tensor) {
  if (tensor.joined) tensor.stack.clear();
  tensor.joined = false;
  return tensor;
}

}  // namespace

TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings) {
  const std::vector<Target> targets(settings.targets.begin(), settings.targets.end());
  check_targets(model, targets);
  const ModuleFilter has_lora = [&](const std::string& module) {
    return std::ranges::any_of(targets, [&](const Target& target) { return target.matches(module); });
  };
  check_patterns(model, "adapter.rank_pattern", settings.rank_pattern, has_lora);
  check_patterns(model, "adapter.alpha_pattern", settings.alpha_pattern, has_lora);
  return adapter_table(model, settings, has_lora, "adapter.");
}

TensorTable adapter_table(const TensorTable& model, const AdapterSettings& settings,
                          const ModuleFilter& has_lora, const std::string& origin) {
  const std::vector<std::string>& saved = settings.modules_to_save;
  check_modules_to_save(model, origin + "modules_to_save", saved);
  TensorTable adapter;
  adapter.old_names = model.old_names;
  adapter.old_prefixes = model.old_prefixes;
  for (const Block& block : model.blocks) {
    Block& added = adapter.blocks.emplace_back(Block{block.kind, block.prefix, {}, block.layer});
    for (const TensorInfo& tensor : block.tensors) {
      const auto means_it = [&](const std::string& end) { return is_saved_by(model, tensor, end); };
      if (std::ranges::any_of(saved, means_it))
        added.tensors.push_back(alone(tensor));
      else if (can_have_lora(block, tensor) && has_lora(module_of(tensor)))
        add_lora(added.tensors, tensor, settings, origin);
    }
  }
  return adapter;
}

TensorTable separated(TensorTable model, const TensorTable& adapter) {
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    std::set<std::string> adapted, stacks;  // modules
    for (const TensorInfo& tensor : adapter.blocks[b].tensors) {
      const std::string module = module_of(tensor);
      adapted.insert(module.ends_with(".lora_A") ? module.substr(0, module.rfind('.')) : module);
    }
    for (const TensorInfo& tensor : model.blocks[b].tensors)
      if (tensor.joined && adapted.contains(module_of(tensor))) stacks.insert(module_of(tensor.stack));
    for (TensorInfo& tensor : model.blocks[b].tensors)
      if (tensor.joined && stacks.contains(module_of(tensor.stack))) tensor = alone(tensor);
  }
  return model;
}

std::vector<std::string> peft_targets(const TensorTable& model, const AdapterSettings& settings) {
  const std::vector<std::string>& given = settings.targets;
  if (std::ranges::none_of(
          given, [](const std::string& target) { return target == kAllLinear || is_expression(target); }))
    return given;
  std::set<std::string> modules, ends;
  for (const Block& block : adapter_table(model, settings).blocks)
    for (const TensorInfo& tensor : block.tensors)
      if (tensor.name.ends_with(kLoraA)) {
        const std::string module = tensor.name.substr(0, tensor.name.size() - kLoraA.size());
        modules.insert(module);
        ends.insert(last_part(module));
      }
  const bool means_others = any_tensor(model, [&](const Block& block, const TensorInfo& tensor) {
    const std::string module = module_of(tensor);
    return can_have_lora(block, tensor) && ends.contains(last_part(module)) && !modules.contains(module);
  });
  const std::set<std::string>& names = means_others ? modules : ends;
  return {names.begin(), names.end()};
}

std::vector<std::string> peft_modules_to_save(const TensorTable& model, const AdapterSettings& settings) {
  std::vector<std::string> modules = settings.modules_to_save;
  for (const auto& [in_memory, name] : model.old_names)
    std::ranges::replace(modules, module_of(name), module_of(in_memory));
  return modules;
}

std::string peft_name(const TensorTable& table, const std::string& name) {
  for (const auto& [in_memory, current] : table.old_names)
    if (name == current) return in_memory;
  return name;
}

}  // namespace dpo::model
