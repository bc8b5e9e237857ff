#include "checkpoint/formats/weight_files.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/user_path.h"
#include "checkpoint/formats/index.h"
#include "checkpoint/formats/torch_archive.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

// File names in the order in which transformers looks for them.
constexpr const char* kNames[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                  "pytorch_model.bin.index.json"};

bool begins_with(const MappedFile& file, std::string_view text) {
  const auto bytes = file.bytes();
  return bytes.size() >= text.size() &&
         std::equal(text.begin(), text.end(), reinterpret_cast<const char*>(bytes.data()));
}

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // The sizes of a tensor without elements may overflow when multiplied; its strides have no meaning.
    if (__builtin_mul_overflow(stride, shape[i], &stride)) stride = 0;
  }
  return strides;
}

// Explains other files that a model's folder may contain instead, and what to do about them.
std::string hint_for_folder(const fs::path& folder) {
  struct Other {
    const char* ending;
    const char* hint;
  };
  constexpr Other kOthers[] = {
      {"adapter_model.safetensors", "an adapter; 'dpo merge' merges it into its model"},
      {"adapter_model.bin", "an adapter; 'dpo merge' merges it into its model"},
      {".gguf", "GGUF files are not supported; use the model that they were made from"},
      {".msgpack", "Flax weights are not supported; save the model with PyTorch as safetensors"},
      {".h5", "TensorFlow weights are not supported; save the model with PyTorch as safetensors"},
      {".onnx", "ONNX files are not supported; use the model that they were made from"},
      {".safetensors", "give the file itself, and --config with its config.json"},
      {".pt", "give the file itself, and --config with its config.json"},
      {".bin", "give the file itself, and --config with its config.json"},
  };
  if (std::string hint = run_folder_hint(folder); !hint.empty()) return hint;
  std::error_code none;
  for (const Other& other : kOthers)
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
      if (const std::string name = entry.path().filename().string(); name.ends_with(other.ending))
        return fmt::format("; found {}: {}", name, other.hint);
  return "";
}

std::vector<StoredTensor> tensors_of_safetensors(const fs::path& path, std::size_t file) {
  const SafetensorsFile opened(path);
  std::vector<StoredTensor> tensors;
  for (const Entry& entry : opened.header().entries)
    tensors.push_back({entry.name, entry.dtype, entry.shape, contiguous_strides(entry.shape), file,
                       opened.header().data_start + entry.begin, entry.end - entry.begin});
  return tensors;
}

std::vector<StoredTensor> tensors_of_archive(const fs::path& path, std::size_t file) {
  const TorchArchive opened(path);
  std::vector<StoredTensor> tensors;
  for (const PickledTensor& tensor : opened.tensors())
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.strides, file,
                       opened.offset_of(tensor), opened.bytes_of(tensor).size()});
  return tensors;
}

std::vector<StoredTensor> tensors_of_file(const fs::path& path, std::size_t file) {
  const MappedFile mapped(path, "weights");
  if (begins_with(mapped, "version https://git-lfs"))
    throw UserError(fmt::format("{}: a Git LFS pointer, not the weights; run 'git lfs pull' in its folder",
                                path.string()));
  const std::string ending = path.extension().string();
  if (begins_with(mapped, "PK") || ending == ".bin" || ending == ".pt" || ending == ".pth")
    return tensors_of_archive(path, file);
  if (ending == ".safetensors") return tensors_of_safetensors(path, file);
  throw UserError(
      fmt::format("{}: not a supported weight file, expected .safetensors, or .bin or .pt from torch.save; "
                  "convert it with Python: safetensors.torch.save_file",
                  path.string()));
}

}  // namespace

bool StoredTensor::is_contiguous() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != stride) return false;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) return false;
  }
  return true;
}

WeightFiles::WeightFiles(const fs::path& path) : origin_(path) {
  std::error_code none;
  if (!fs::exists(path, none))
    throw UserError(fmt::format("weights: no such file or folder: {}", path.string()));
  if (fs::is_directory(path, none))
    open_folder(path);
  else if (path.string().ends_with(".index.json"))
    open_index(path);
  else
    open_file(path);
}

void WeightFiles::read(const StoredTensor& tensor, std::uint64_t from, std::span<std::byte> bytes) const {
  files_[tensor.file].read(tensor.offset + from, bytes);
}

void WeightFiles::prefetch(const StoredTensor& tensor, std::uint64_t from, std::uint64_t size) const {
  files_[tensor.file].prefetch(tensor.offset + from, size);
}

void WeightFiles::open_folder(const fs::path& folder) {
  std::error_code none;
  for (const char* name : kNames) {
    origin_ = folder / name;
    if (!fs::exists(origin_, none)) continue;
    return origin_.extension() == ".json" ? open_index(origin_) : open_file(origin_);
  }
  throw UserError(fmt::format("{}: no weights in this folder, expected one of {}{}", folder.string(),
                              fmt::join(kNames, ", "), hint_for_folder(folder)));
}

void WeightFiles::open_file(const fs::path& file) {
  std::vector<StoredTensor> tensors = tensors_of_file(file, files_.size());
  files_.emplace_back(file, "weights");
  std::move(tensors.begin(), tensors.end(), std::back_inserter(tensors_));
}

void WeightFiles::open_index(const fs::path& index) {
  const WeightMap map = parse_weight_index(read_text_file(index, "weights"), index.string());
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map) shards.insert(file);
  std::vector<std::string> problems;
  std::error_code none;
  for (const std::string& shard : shards)
    if (!fs::exists(index.parent_path() / shard, none))
      problems.push_back(fmt::format("{}: its file {} is missing", index.string(), shard));
  if (!problems.empty()) throw UserError(problems);
  for (const std::string& shard : shards) open_file(index.parent_path() / shard);

  // If two files contain a tensor, the index decides.
  std::set<std::string> found;
  std::erase_if(tensors_, [&](const StoredTensor& tensor) {
    const auto named = map.find(tensor.name);
    const bool wanted =
        named == map.end() || files_[tensor.file].path() == index.parent_path() / named->second;
    return !wanted || !found.insert(tensor.name).second;
  });
  for (const auto& [tensor, file] : map)
    if (!found.count(tensor))
      problems.push_back(fmt::format("{}: tensor '{}' is not in {}", index.string(), tensor, file));
  if (!problems.empty()) throw UserError(problems);
}

}  // namespace dpo::checkpoint
