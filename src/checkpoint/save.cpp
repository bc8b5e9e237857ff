#include "checkpoint/save.h"

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/formats/torch_archive.h"
#include "checkpoint/read_tensors.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string config_of(const LoadedModel& model) {
  auto config = nlohmann::ordered_json::parse(model.config_json);
  config.erase("torch_dtype");
  config.erase("quantization_config");  // the values are written unquantized
  config["dtype"] = name_of_scalar(model.weights.dtype());
  const bool tied = model.config.shape.tied_embeddings;
  if (model::parse_shape(model.config_json, "config.json").tied_embeddings != tied)
    config["tie_word_embeddings"] = tied;
  return config.dump(2) + "\n";
}

// Returns the model's tensors, to be written one by one. A tensor on another device is copied to the host
// when it is written, and the previous copy is freed.
std::vector<TensorToWrite> sources_of(const LoadedModel& model, const ProgressCallback& progress) {
  const auto on_host = std::make_shared<at::Tensor>();
  const auto done = std::make_shared<std::int64_t>(0);
  std::int64_t total = 0;
  for (const model::BlockWeights& block : model.weights.blocks)
    for (const model::NamedTensor& named : block.tensors)
      total += static_cast<std::int64_t>(named.tensor.nbytes());
  std::vector<TensorToWrite> sources;
  for (std::size_t i = 0; i < model.table.blocks.size(); ++i)
    for (std::size_t j = 0; j < model.table.blocks[i].tensors.size(); ++j) {
      const model::TensorInfo& described = model.table.blocks[i].tensors[j];
      const at::Tensor tensor = model.weights.blocks[i].tensors[j].tensor;
      const auto bytes = [=] {
        if (progress) progress(*done, total);
        *on_host = tensor.cpu().contiguous();
        *done += static_cast<std::int64_t>(on_host->nbytes());
        return std::span(static_cast<const std::byte*>(on_host->const_data_ptr()), on_host->nbytes());
      };
      sources.push_back({described.name, dtype_of(tensor.scalar_type()), described.shape, bytes});
    }
  return sources;
}

// Fills one file after the other. A tensor larger than the limit gets a separate file.
std::vector<std::vector<Entry>> shards_of(const model::TensorTable& table, Dtype dtype,
                                          std::uint64_t shard_bytes) {
  std::vector<std::vector<Entry>> shards(1);
  std::uint64_t filled = 0;
  for (const model::Block& block : table.blocks)
    for (const model::TensorInfo& tensor : block.tensors) {
      Entry entry{tensor.name, dtype, tensor.shape};
      const std::uint64_t bytes = entry.bytes();
      if (!shards.back().empty() && (bytes > shard_bytes || filled > shard_bytes - bytes)) {
        shards.emplace_back();
        filled = 0;
      }
      shards.back().push_back(std::move(entry));
      filled += bytes;
    }
  return shards;
}

void write_index(const fs::path& folder, const model::TensorTable& table,
                 const std::vector<TensorFile>& files) {
  nlohmann::json map;
  std::uint64_t total = 0;
  for (const TensorFile& file : files)
    for (const Entry& entry : file.plan.entries) {
      map[entry.name] = file.name;
      total += entry.bytes();
    }
  const nlohmann::json index = {{"metadata", {{"total_parameters", table.count()}, {"total_size", total}}},
                                {"weight_map", map}};
  write_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

std::vector<TensorFile> model_files(const model::TensorTable& table, at::ScalarType dtype,
                                    std::uint64_t shard_bytes) {
  auto shards = shards_of(table, dtype_of(dtype), shard_bytes);
  if (shards.size() == 1) return {{"model.safetensors", plan_safetensors(std::move(shards[0]))}};
  std::vector<TensorFile> files;
  for (std::size_t i = 0; i < shards.size(); ++i)
    files.push_back({fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()),
                     plan_safetensors(std::move(shards[i]))});
  return files;
}

void make_model_files(const fs::path& folder, const LoadedModel& model,
                      const std::vector<TensorFile>& files) {
  make_files(folder, files);
  if (files.size() > 1) write_index(folder, model.table, files);
  for (const auto& [name, text] : model.other_files) {
    fs::create_directories((folder / name).parent_path());
    write_file(folder / name, text);
  }
  write_file(folder / "config.json", config_of(model));
}

void save_model(const fs::path& out, const LoadedModel& model, std::uint64_t shard_bytes,
                const ProgressCallback& progress) {
  check_absent(out);
  AtomicFolder folder(out);
  const std::vector<TensorFile> files = model_files(model.table, model.weights.dtype(), shard_bytes);
  make_model_files(folder.temporary(), model, files);
  write_parts(folder.temporary(), files, parts_of(model.table, flats_of(model.weights), {}, ""), progress);
  folder.commit();
}

void save_policy(const fs::path& out, const LoadedModel& model, const ProgressCallback& progress) {
  check_absent(out);
  std::vector<std::pair<std::string, std::string>> shared;
  if (model.config.shape.tied_embeddings)
    shared.emplace_back(model.table.head_name, model.table.embedding_name);
  write_policy(out, sources_of(model, progress), shared);
}

}  // namespace dpo::checkpoint
