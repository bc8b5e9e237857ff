#include "checkpoint/load.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/match.h"
#include "checkpoint/read_tensors.h"
#include "hub/cache.h"
#include "model/init.h"
#include "model/tables/config_object.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

// The other files of a model's folder that other programs need.
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kCompanions[] = {
    kGeneration,           "tokenizer.json",    "tokenizer_config.json",   "tokenizer.model",
    "vocab.json",          "merges.txt",        "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "chat_template.json"};

std::map<std::string, std::string> read_other_files(const fs::path& folder) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::map<std::string, std::string> texts;
  std::error_code none;
  for (const char* name : kCompanions)
    if (fs::exists(folder / name, none))
      texts[name] = read_text_file(folder / name, "the model's folder", kLargest);
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", none))
    if (entry.path().extension() == ".jinja")
      texts[fs::relative(entry.path(), folder)] =
          read_text_file(entry.path(), "the model's folder", kLargest);
  return texts;
}

bool is_config_file(const std::string& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

// Everything of a model except its weights.
LoadedModel open_config(const std::string& name_or_path) {
  LoadedModel opened;
  fs::path file = name_or_path;
  if (is_config_file(name_or_path)) {
    opened.folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  } else {
    opened.folder = model_folder(name_or_path);
    file = opened.folder / "config.json";
  }
  const std::string whole = read_text_file(file, "the model's configuration");
  opened.config = model::parse_model_config(whole, file.string());
  opened.config_json = model::text_part_of(whole);
  opened.table = model::tensor_table(opened.config.shape);
  opened.notes = opened.config.settings.notes;
  if (opened.config_json != whole)
    opened.notes.push_back(
        fmt::format("{}: a model for images and text: only its text part is used", file.string()));
  opened.other_files = read_other_files(opened.folder);
  return opened;
}

// The files of a tied model have a head that differs from the embedding: it is not tied, as in transformers.
void untie(LoadedModel& opened, const std::string& origin) {
  opened.notes.push_back(
      fmt::format("{}: '{}' and '{}' differ although config.json ties them: the model is treated as untied",
                  origin, opened.table.embedding_name, opened.table.head_name));
  opened.config.shape.tied_embeddings = false;
  opened.table = model::tensor_table(opened.config.shape);
}

struct OpenedWeights {
  WeightFiles files;
  Match match;
};

OpenedWeights open_weights(LoadedModel& opened, const std::optional<fs::path>& weights_file) {
  WeightFiles files(weights_file.value_or(opened.folder));
  const std::string origin = files.origin().string();
  Match match = match_tensors(opened.table, files.tensors(), origin);
  if (match.second_head) {
    const std::size_t embedding = match.sources.front().front();
    if (!are_equal(files, files.tensors()[embedding], files.tensors()[*match.second_head])) {
      untie(opened, origin);
      match = match_tensors(opened.table, files.tensors(), origin);
    }
  }
  return {std::move(files), std::move(match)};
}

// Fewer page faults while weights are read, and later. It is a hint: failure does no harm.
void request_huge_pages(const at::Tensor& flat) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(flat.mutable_data_ptr());
  const std::uintptr_t first = (begin + page - 1) / page * page, last = (begin + flat.nbytes()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// A block's buffer as model::make_weights lays it out, not filled yet. On the CPU its memory is not touched
// either, so that reading the file is the first pass over it, and is requested in huge pages.
at::Tensor allocate_flat(const model::Block& block, at::ScalarType dtype, at::Device device,
                         const model::Layout& layout) {
  const std::int64_t size = model::block_size(block, layout).shard_size;
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
  if (!device.is_cpu()) return at::zeros({size}, options);
  const at::Tensor flat = at::empty({size}, options);
  request_huge_pages(flat);
  std::int64_t end = 0;  // of the previous tensor
  const auto clear_to = [&](std::int64_t begin) { flat.narrow(0, end, begin - end).zero_(); };
  for (const model::HeldTensor& held : model::held_tensors(block, layout)) {
    clear_to(held.to);
    end = held.to + held.count;
  }
  clear_to(flat.numel());
  return flat;
}

// Where the tensors of block i go in its buffer.
void add_destinations(std::vector<Destination>& destinations, const OpenedWeights& stored,
                      const model::TensorTable& table, std::size_t i, const at::Tensor& flat,
                      const model::Layout& layout) {
  for (model::HeldTensor& held : model::held_tensors(table.blocks[i], layout))
    destinations.push_back({&stored.files.tensors()[stored.match.sources[i][held.tensor]],
                            flat.narrow(0, held.to, held.count), std::move(held.ranges)});
}

// What this rank reads.
std::int64_t bytes_of(const OpenedWeights& stored, const model::TensorTable& table,
                      const model::Layout& layout) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (const model::HeldTensor& held : model::held_tensors(table.blocks[i], layout)) {
      const StoredTensor& source = stored.files.tensors()[stored.match.sources[i][held.tensor]];
      bytes += held.count * static_cast<std::int64_t>(size_of(source.dtype));
    }
  return bytes;
}

}  // namespace

fs::path model_folder(const std::string& name_or_path) {
  std::error_code none;
  if (fs::is_directory(name_or_path, none)) return name_or_path;
  if (const auto snapshot = hub::cached_snapshot(hub::RepositoryKind::Model, name_or_path)) return *snapshot;
  if (fs::exists(name_or_path, none))
    throw UserError(
        fmt::format("{} is a file, expected a model's folder or its name ORG/NAME", name_or_path));
  if (!hub::may_be_on_the_hub(name_or_path))
    throw UserError(
        fmt::format("there is no folder {}; expected a model's folder or its name ORG/NAME", name_or_path));
  throw UserError(
      fmt::format("there is no folder {}, and no model of that name in the Hugging Face cache {}; "
                  "if it is on the Hugging Face hub, '{}' downloads it",
                  name_or_path, hub::cache_folder().string(),
                  hub::fetch_command(hub::RepositoryKind::Model, name_or_path)));
}

LoadedModel open_model(const std::string& name_or_path) {
  LoadedModel opened = open_config(name_or_path);
  open_weights(opened, std::nullopt);
  return opened;
}

LoadedModel load_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                       const std::optional<fs::path>& weights_file, const ProgressCallback& progress,
                       const model::Layout& layout, const BlockCallback& each_block) {
  LoadedModel opened = open_config(name_or_path);
  const OpenedWeights stored = open_weights(opened, weights_file);
  const std::vector<model::Block>& blocks = opened.table.blocks;
  const std::int64_t total = each_block ? bytes_of(stored, opened.table, layout) : 0;
  std::int64_t before = 0, read = 0;  // bytes of the blocks before this one, and with it
  std::vector<Destination> destinations;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const at::Tensor flat = allocate_flat(blocks[i], dtype, device, layout);
    opened.weights.blocks.push_back(model::rank_block(flat, blocks[i], layout));
    add_destinations(destinations, stored, opened.table, i, flat, layout);
    if (!each_block) continue;
    before = read;
    read_tensors(stored.files, std::exchange(destinations, {}), [&](std::int64_t done, std::int64_t) {
      read = before + done;
      if (progress) progress(read, total);
    });
    opened.weights.blocks[i] = each_block(blocks[i], std::move(opened.weights.blocks[i]));
  }
  if (!each_block) read_tensors(stored.files, std::move(destinations), progress);
  return opened;
}

bool has_tokenizer(const fs::path& folder) {
  std::error_code none;
  const auto has = [&](const char* name) { return fs::exists(folder / name, none); };
  return has("tokenizer.json") || has("tokenizer.model") || has("vocab.json");
}

void use_tokenizer(LoadedModel& model, const fs::path& folder) {
  std::map<std::string, std::string> files = read_other_files(folder);
  files.erase(kGeneration);
  if (const auto own = model.other_files.find(kGeneration); own != model.other_files.end())
    files.insert(*own);
  model.other_files = std::move(files);
}

at::ScalarType stored_dtype(const std::string& name_or_path, const std::optional<fs::path>& weights_file) {
  LoadedModel opened = open_config(name_or_path);
  const OpenedWeights stored = open_weights(opened, weights_file);
  std::optional<at::ScalarType> all;
  for (const auto& block : stored.match.sources)
    for (const std::size_t number : block) {
      const at::ScalarType one = scalar_type_of(stored.files.tensors()[number].dtype);
      all = all ? c10::promoteTypes(*all, one) : one;
    }
  return all.value_or(at::kFloat);
}

at::ScalarType configured_dtype(const std::string& name_or_path) {
  const auto config = nlohmann::json::parse(open_config(name_or_path).config_json);
  for (const char* key : {"dtype", "torch_dtype"})
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
      if (const auto named = config.find(key); named != config.end() && *named == name_of_scalar(type))
        return type;
  return at::kFloat;
}

LoadedModel new_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                      std::uint64_t seed, const model::Layout& layout) {
  LoadedModel made = open_config(name_or_path);
  made.weights = model::make_weights(made.table, dtype, device, layout);
  model::initialize(made.weights, made.table, made.config, seed, layout);
  return made;
}

}  // namespace dpo::checkpoint
