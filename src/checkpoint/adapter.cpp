#include "checkpoint/adapter.h"

#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/user_path.h"
#include "checkpoint/read_tensors.h"
#include "hub/cache.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";  // of tensor names in PEFT's files
constexpr std::string_view kLoraA = ".lora_A.weight";

WeightFiles open_files(const fs::path& folder) {
  std::error_code none;
  const fs::path old = folder / "adapter_model.bin";
  return WeightFiles(
      !fs::exists(folder / kWeightsFile, none) && fs::exists(old, none) ? old : folder / kWeightsFile);
}

// Returns the table's name for a stored tensor. PEFT uses in-memory names, which differ in some models.
std::string name_in_table(std::string name, const model::TensorTable& model) {
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  for (const auto& [in_memory, current] : model.old_names)
    if (name == in_memory) return current;
  for (const auto& [old, current] : model.old_prefixes)
    if (name.starts_with(old)) return name.replace(0, old.size(), current);
  return name;
}

using StoredByName = std::unordered_map<std::string, const StoredTensor*>;

StoredByName stored_by_name(const WeightFiles& files, const model::TensorTable& model) {
  StoredByName stored;
  for (const StoredTensor& tensor : files.tensors())
    stored.emplace(name_in_table(tensor.name, model), &tensor);
  return stored;
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.') + 1); }

// Returns the problem with a tensor of the file that the adapter's table does not have.
std::string unknown_tensor(const std::string& name, const std::string& stored,
                           const model::TensorTable& model) {
  if (name.starts_with(module_of(model.embedding_name)) || name.starts_with(module_of(model.head_name)))
    return fmt::format(
        "tensor '{}' changes the embedding or the head, which is supported only by modules_to_save with the "
        "model's own size; merge the adapter with PEFT (merge_and_unload), and use that model",
        stored);
  return fmt::format(
      "tensor '{}' is not LoRA of a matrix in a layer of this model, and not one of modules_to_save: is this "
      "the adapter of another model?",
      stored);
}

// Throws at most a few problems, because an adapter of another model has many similar ones.
[[noreturn]] void throw_problems(std::vector<std::string> problems, const std::string& origin) {
  constexpr std::size_t kShown = 3;
  for (std::string& problem : problems) problem = fmt::format("{}: {}", origin, problem);
  if (problems.size() > kShown) {
    problems[kShown] = fmt::format("{}: and {} more like these", origin, problems.size() - kShown);
    problems.resize(kShown + 1);
  }
  throw UserError(std::move(problems));
}

void check_tensors(const WeightFiles& files, const model::TensorTable& adapter,
                   const model::TensorTable& model) {
  const StoredByName stored = stored_by_name(files, model);
  std::vector<std::string> problems;
  std::set<std::string> wanted;
  for (const model::Block& block : adapter.blocks)
    for (const model::TensorInfo& tensor : block.tensors) {
      wanted.insert(tensor.name);
      const auto found = stored.find(tensor.name);
      if (found == stored.end())
        problems.push_back(fmt::format("the adapter's tensor '{}' is missing", tensor.name));
      else if (found->second->shape != tensor.shape)
        problems.push_back(fmt::format(
            "tensor '{}' has the shape [{}], expected [{}] (from {} and the model)", found->second->name,
            fmt::join(found->second->shape, ", "), fmt::join(tensor.shape, ", "), kConfigFile));
    }
  for (const StoredTensor& tensor : files.tensors())
    if (const std::string name = name_in_table(tensor.name, model); !wanted.contains(name))
      problems.push_back(unknown_tensor(name, tensor.name, model));
  if (!problems.empty()) throw_problems(std::move(problems), files.origin().string());
}

// Returns the folder of a model, or nullopt if it is not on this machine.
std::optional<fs::path> local_folder(const std::string& name_or_path) {
  std::error_code none;
  if (fs::is_regular_file(name_or_path, none)) return fs::absolute(name_or_path).parent_path();
  if (fs::is_directory(name_or_path, none)) return name_or_path;
  return hub::cached_snapshot(hub::RepositoryKind::Model, name_or_path);
}

}  // namespace

bool is_adapter(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kConfigFile, none);
}

fs::path adapter_folder(const std::string& name_or_path) {
  std::error_code none;
  if (fs::is_regular_file(name_or_path, none))
    throw UserError(fmt::format("{} is a file, expected an adapter's folder", name_or_path));
  const auto folder = local_folder(name_or_path);
  if (!folder)
    throw UserError(fmt::format(
        "there is no adapter {}: expected a folder with {}, or a name ORG/NAME{}", name_or_path, kConfigFile,
        hub::may_be_on_the_hub(name_or_path)
            ? fmt::format(" that '{}' has downloaded",
                          hub::fetch_command(hub::RepositoryKind::Model, name_or_path))
            : ""));
  if (!is_adapter(*folder))
    throw UserError(fmt::format("{} is not an adapter: it has no {}{}", name_or_path, kConfigFile,
                                run_folder_hint(*folder)));
  return *folder;
}

model::AdapterConfig read_adapter_config(const fs::path& folder) {
  const fs::path file = folder / kConfigFile;
  return model::parse_adapter_config(read_text_file(file, "the adapter's configuration"), file.string());
}

std::string base_name(const std::string& name_or_path) {
  std::error_code none;
  return fs::is_directory(name_or_path, none) ? fs::canonical(name_or_path).string() : name_or_path;
}

std::string check_base(const fs::path& adapter, const std::string& base, const std::string& model,
                       const std::string& key) {
  if (base.empty() || base == model) return "";
  const auto made_for = local_folder(base), used = local_folder(model);
  if (!made_for || !used)
    return fmt::format("{} is an adapter of {}, which is not on this machine: make sure that {} is the same",
                       adapter.string(), base, model);
  std::error_code none;
  if (fs::equivalent(*made_for, *used, none)) return "";
  throw UserError(
      fmt::format("{0} is an adapter of {1}, but {2} is {3}: use {1}; or, if they are the same model, change "
                  "base_model_name_or_path in {4}",
                  adapter.string(), base, key, model, (adapter / kConfigFile).string()));
}

AdapterInfo open_adapter(const fs::path& folder, const model::TensorTable& model) {
  AdapterInfo adapter{read_adapter_config(folder), {}};
  const WeightFiles files = open_files(folder);
  const StoredByName stored = stored_by_name(files, model);
  const auto has_lora = [&](const std::string& module) {
    return stored.contains(module + std::string(kLoraA));
  };
  adapter.table = model::adapter_table(model, adapter.config.settings, has_lora,
                                       fmt::format("{}: ", (folder / kConfigFile).string()));
  check_tensors(files, adapter.table, model);
  return adapter;
}

void read_adapter(const fs::path& folder, const AdapterInfo& adapter, model::Weights& weights,
                  const model::Layout& layout) {
  const WeightFiles files = open_files(folder);
  const StoredByName stored = stored_by_name(files, adapter.table);
  std::vector<Destination> destinations;
  for (std::size_t i = 0; i < adapter.table.blocks.size(); ++i)
    for (model::HeldTensor& held : model::held_tensors(adapter.table.blocks[i], layout))
      destinations.push_back({stored.at(adapter.table.blocks[i].tensors[held.tensor].name),
                              weights.blocks[i].flat.narrow(0, held.to, held.count), std::move(held.ranges)});
  read_tensors(files, std::move(destinations), {});
}

model::Weights load_adapter(const fs::path& folder, const model::TensorTable& model, at::ScalarType dtype,
                            at::Device device) {
  const AdapterInfo adapter = open_adapter(folder, model);
  model::Weights weights = model::make_weights(adapter.table, dtype, device);
  read_adapter(folder, adapter, weights);
  return weights;
}

model::TensorTable peft_table(const model::TensorTable& adapter) {
  model::TensorTable stored = adapter;
  for (model::Block& block : stored.blocks)
    for (model::TensorInfo& tensor : block.tensors)
      tensor.name = std::string(kPrefix) + model::peft_name(adapter, tensor.name);
  return stored;
}

std::vector<TensorFile> adapter_files(const model::TensorTable& table, at::ScalarType dtype) {
  std::vector<Entry> entries;
  for (const model::Block& block : peft_table(table).blocks)
    for (const model::TensorInfo& tensor : block.tensors)
      entries.push_back({tensor.name, dtype_of(dtype), tensor.shape});
  return {{kWeightsFile, plan_safetensors(std::move(entries))}};
}

void make_adapter_files(const fs::path& folder, const AdapterInfo& adapter, const model::TensorTable& model,
                        const std::map<std::string, std::string>& other_files,
                        const std::vector<TensorFile>& files) {
  make_files(folder, files);
  for (const auto& [name, text] : other_files) {
    fs::create_directories((folder / name).parent_path());
    write_file(folder / name, text);
  }
  write_file(folder / kConfigFile, model::text_of(adapter.config, model));
}

}  // namespace dpo::checkpoint
