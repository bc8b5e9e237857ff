#include "checkpoint/adapter.h"

#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "checkpoint/read_tensors.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kLoraA = ".lora_A.weight";

WeightFiles open_files(const fs::path& folder) {
  std::error_code none;
  const fs::path old = folder / "adapter_model.bin";
  return WeightFiles(
      !fs::exists(folder / kWeightsFile, none) && fs::exists(old, none) ? old : folder / kWeightsFile);
}

// The table's name for a stored tensor. Some models have other names in memory, which PEFT uses.
std::string name_in_table(std::string name, const model::TensorTable& model) {
  if (name.starts_with(kAdapterPrefix)) name.erase(0, std::string_view(kAdapterPrefix).size());
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

void check_tensors(const StoredByName& stored, const model::TensorTable& table, const std::string& origin) {
  std::vector<std::string> problems;
  std::set<std::string> wanted;
  for (const model::Block& block : table.blocks)
    for (const model::TensorInfo& tensor : block.tensors) {
      wanted.insert(tensor.name);
      const auto found = stored.find(tensor.name);
      if (found == stored.end())
        problems.push_back(fmt::format("{}: the adapter's tensor '{}' is missing", origin, tensor.name));
      else if (found->second->shape != tensor.shape)
        problems.push_back(
            fmt::format("{}: tensor '{}' has the shape [{}], expected [{}] (from {} and the model)", origin,
                        found->second->name, fmt::join(found->second->shape, ", "),
                        fmt::join(tensor.shape, ", "), kConfigFile));
    }
  for (const auto& [name, tensor] : stored)
    if (!wanted.contains(name))
      problems.push_back(fmt::format(
          "{}: tensor '{}' is not LoRA of a matrix in a layer of this model, and not one of modules_to_save: "
          "is this the adapter of another model?",
          origin, tensor->name));
  if (!problems.empty()) throw UserError(std::move(problems));
}

}  // namespace

bool is_adapter(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kConfigFile, none);
}

AdapterInfo open_adapter(const fs::path& folder, const model::TensorTable& model) {
  const fs::path file = folder / kConfigFile;
  AdapterInfo adapter{
      model::parse_adapter_config(read_text_file(file, "the adapter's configuration"), file.string()), {}};
  const WeightFiles files = open_files(folder);
  const StoredByName stored = stored_by_name(files, model);
  adapter.table = model::adapter_table(model, adapter.config.settings, [&](const std::string& module) {
    return stored.contains(module + std::string(kLoraA));
  });
  check_tensors(stored, adapter.table, files.origin().string());
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

std::vector<TensorFile> adapter_files(const model::TensorTable& table, at::ScalarType dtype) {
  std::vector<Entry> entries;
  for (const model::Block& block : table.blocks)
    for (const model::TensorInfo& tensor : block.tensors)
      entries.push_back({kAdapterPrefix + tensor.name, dtype_of(dtype), tensor.shape});
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
