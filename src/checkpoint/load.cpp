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
#include "checkpoint/quantized.h"
#include "checkpoint/read_tensors.h"
#include "hub/cache.h"
#include "model/init.h"
#include "model/spec/config_object.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

// The tokenizer and generation files that other programs need from a model's folder.
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

fs::path config_file(const std::string& name_or_path) {
  return is_config_file(name_or_path) ? fs::path(name_or_path) : model_folder(name_or_path) / "config.json";
}

// Opens everything of a model except its weights.
LoadedModel open_config(const std::string& name_or_path) {
  LoadedModel opened;
  const fs::path file = config_file(name_or_path);
  opened.folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
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

// Treats a model as untied, as transformers does, because the head in its files differs from the embedding.
void untie(LoadedModel& opened, const std::string& origin) {
  opened.notes.push_back(
      fmt::format("{}: '{}' and '{}' differ although config.json ties them: the model is treated as untied",
                  origin, opened.table.embedding_name, opened.table.head_name));
  opened.config.shape.tied_embeddings = false;
  opened.table = model::tensor_table(opened.config.shape);
}

struct OpenedWeights {
  WeightFiles files;
  StoredModel model;
  Match match;

  const StoredTensor& source(std::size_t block, std::size_t tensor) const {
    return model.tensors[match.sources[block][tensor]];
  }
  const QuantizedTensor* quantized(std::size_t number) const {
    const auto found = model.quantized.find(number);
    return found == model.quantized.end() ? nullptr : &found->second;
  }
  const QuantizedTensor* quantized(std::size_t block, std::size_t tensor) const {
    return quantized(match.sources[block][tensor]);
  }
  bool is_same(std::size_t one, std::size_t other) const {
    return !quantized(one) && !quantized(other) && are_equal(files, model.tensors[one], model.tensors[other]);
  }
};

std::string name_of_quantized(ops::QuantizedDtype dtype) {
  return dtype == ops::QuantizedDtype::nf4 ? "nf4" : "int8";
}

// Throws unless config.json and the files agree on quantization, because plans are made from config.json
// alone.
void check_quantization(LoadedModel& opened, const OpenedWeights& stored, bool has_own_files) {
  const auto& expected = opened.config.settings.quantization;
  const std::string origin = stored.files.origin().string();
  const std::string wanted = expected ? name_of(expected->dtype) : "";
  for (const auto& [number, tensor] : stored.model.quantized)
    if (const std::string found = name_of_quantized(tensor.dtype); found != wanted)
      throw UserError(fmt::format(
          "{}: tensor '{}' is quantized by bitsandbytes ({}), but 'quantization_config' in config.json {}",
          origin, stored.model.tensors[number].name, found,
          expected ? fmt::format("says {}", wanted) : "does not say so"));
  if (!stored.model.quantized.empty())
    opened.notes.push_back(fmt::format("{}: {} matrices are quantized by bitsandbytes ({})", origin,
                                       stored.model.quantized.size(), wanted));
  else if (expected && has_own_files)
    throw UserError(fmt::format(
        "{}: no tensor is quantized, but 'quantization_config' in config.json says {}: remove it there",
        origin, wanted));
}

OpenedWeights open_weights(LoadedModel& opened, const std::optional<fs::path>& weights_file) {
  WeightFiles files(weights_file.value_or(opened.folder));
  const std::string origin = files.origin().string();
  StoredModel model = find_quantized(files);
  Match match = match_tensors(opened.table, model.tensors, origin);
  OpenedWeights stored{std::move(files), std::move(model), std::move(match)};
  check_quantization(opened, stored, !weights_file);
  if (const auto head = stored.match.second_head;
      head && !stored.is_same(stored.match.sources.front().front(), *head)) {
    untie(opened, origin);
    stored.match = match_tensors(opened.table, stored.model.tensors, origin);
  }
  return stored;
}

// Requests huge pages, which reduces page faults while weights are read and later. Failure of this hint is
// harmless.
void request_huge_pages(const at::Tensor& flat) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(flat.mutable_data_ptr());
  const std::uintptr_t first = (begin + page - 1) / page * page, last = (begin + flat.nbytes()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// Allocates a block's buffer with the layout of model::make_weights, without filling it. On the CPU it is
// allocated in huge pages, and only its padding is written, so that reading the file is the first pass over
// the memory.
at::Tensor allocate_flat(const model::Block& block, at::ScalarType dtype, at::Device device,
                         const model::Layout& layout) {
  const std::int64_t size = model::block_size(block, layout).shard_size;
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
  if (!device.is_cpu()) return at::zeros({size}, options);
  const at::Tensor flat = at::empty({size}, options);
  request_huge_pages(flat);
  std::int64_t end = 0;  // end of the previous tensor
  const auto clear_to = [&](std::int64_t begin) { flat.narrow(0, end, begin - end).zero_(); };
  for (const model::HeldTensor& held : model::held_tensors(block, layout)) {
    clear_to(held.to);
    end = held.to + held.count;
  }
  clear_to(flat.numel());
  return flat;
}

// A quantized matrix of a block that is being read.
struct HeldQuantized {
  model::HeldTensor held;
  QuantizedRead read;
};

// Adds the destinations of block i's tensors, which are in its buffer. Quantized tensors are read into
// separate ones.
std::vector<HeldQuantized> add_destinations(std::vector<Destination>& destinations,
                                            const OpenedWeights& stored, const model::TensorTable& table,
                                            std::size_t i, const at::Tensor& flat,
                                            const model::Layout& layout) {
  std::vector<HeldQuantized> quantized;
  for (model::HeldTensor& held : model::held_tensors(table.blocks[i], layout)) {
    if (const QuantizedTensor* source = stored.quantized(i, held.tensor)) {
      quantized.push_back({std::move(held), {*source, flat.device()}});
      quantized.back().read.add_to(destinations);
    } else {
      destinations.push_back(
          {&stored.source(i, held.tensor), flat.narrow(0, held.to, held.count), std::move(held.ranges)});
    }
  }
  return quantized;
}

// Writes the values of the part of a quantized matrix that this rank holds.
void expand(const ops::QuantizedMatrix& matrix, const model::HeldTensor& held,
            const std::vector<std::int64_t>& shape, const at::Tensor& flat) {
  const at::Tensor own = flat.narrow(0, held.to, held.count);
  const std::int64_t count = shape[0] * shape[1];
  if (held.count == count) return ops::dequantize(matrix, own.view(shape));
  const at::Tensor whole = at::empty({count}, flat.options());
  ops::dequantize(matrix, whole.view(shape));
  std::int64_t to = 0;
  for (const model::Range& range : held.ranges) {
    own.narrow(0, to, range.count).copy_(whole.narrow(0, range.from, range.count));
    to += range.count;
  }
}

// Writes the values of a block's quantized matrices and returns those that may stay quantized.
model::StoredMatrices expand(const std::vector<HeldQuantized>& quantized, const model::Block& block,
                             const at::Tensor& flat) {
  model::StoredMatrices stored(block.tensors.size());
  for (const auto& [held, read] : quantized) {
    const model::TensorInfo& tensor = block.tensors[held.tensor];
    ops::QuantizedMatrix matrix = read.matrix();
    expand(matrix, held, tensor.shape, flat);
    if (model::is_quantizable(block, tensor)) stored[held.tensor] = std::move(matrix);
  }
  return stored;
}

// Returns the number of bytes that this rank reads.
std::int64_t bytes_of(const OpenedWeights& stored, const model::TensorTable& table,
                      const model::Layout& layout) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (const model::HeldTensor& held : model::held_tensors(table.blocks[i], layout)) {
      const QuantizedTensor* quantized = stored.quantized(i, held.tensor);
      bytes += quantized
                   ? quantized->bytes()
                   : held.count * static_cast<std::int64_t>(size_of(stored.source(i, held.tensor).dtype));
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
    throw UserError(fmt::format("there is no {} {}; expected a model's folder or its name ORG/NAME{}",
                                hub::is_file_name(name_or_path) ? "file" : "folder", name_or_path,
                                hub::did_you_mean_folder(name_or_path)));
  throw UserError(fmt::format(
      "there is no folder {}, and no model of that name in the Hugging Face cache {}; "
      "if it is on the Hugging Face hub, '{}' downloads it{}",
      name_or_path, hub::cache_folder().string(),
      hub::fetch_command(hub::RepositoryKind::Model, name_or_path), hub::did_you_mean_folder(name_or_path)));
}

model::ModelConfig read_config(const std::string& name_or_path) {
  const fs::path file = config_file(name_or_path);
  return model::parse_model_config(read_text_file(file, "the model's configuration"), file.string());
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
  const bool is_quantized = !stored.model.quantized.empty(), block_by_block = each_block || is_quantized;
  const std::int64_t total = block_by_block ? bytes_of(stored, opened.table, layout) : 0;
  std::int64_t before = 0, read = 0;  // bytes before this block; bytes up to its end
  std::vector<Destination> destinations;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const at::Tensor flat = allocate_flat(blocks[i], dtype, device, layout);
    opened.weights.blocks.push_back(model::rank_block(flat, blocks[i], layout));
    const std::vector<HeldQuantized> quantized =
        add_destinations(destinations, stored, opened.table, i, flat, layout);
    if (!block_by_block) continue;
    before = read;
    read_tensors(stored.files, std::exchange(destinations, {}), [&](std::int64_t done, std::int64_t) {
      read = before + done;
      if (progress) progress(read, total);
    });
    model::StoredMatrices matrices = expand(quantized, blocks[i], flat);
    if (each_block)
      opened.weights.blocks[i] = each_block(blocks[i], std::move(opened.weights.blocks[i]),
                                            is_quantized ? std::move(matrices) : model::StoredMatrices());
  }
  if (!block_by_block) read_tensors(stored.files, std::move(destinations), progress);
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
      if (stored.quantized(number)) continue;
      const at::ScalarType one = scalar_type_of(stored.model.tensors[number].dtype);
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
