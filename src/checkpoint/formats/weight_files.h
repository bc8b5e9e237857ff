#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {

// A tensor of a weight file.
struct StoredTensor {
  std::string name;
  Dtype dtype{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements
  std::size_t file = 0;               // index of the file in WeightFiles
  std::uint64_t offset = 0;           // of its first element, in the file
  std::uint64_t size = 0;             // bytes from the first to the last element

  bool is_contiguous() const;
};

// The weights of a model in any supported form: safetensors or torch.save, one file or several with an index.
// The constructor reads and checks everything except the numbers themselves.
class WeightFiles {
 public:
  // `path` is a Hugging Face folder or one weight file. Throws a UserError if anything is missing, damaged or
  // unsupported.
  explicit WeightFiles(const std::filesystem::path& path);

  const std::filesystem::path& origin() const { return origin_; }  // the file, or the index of several files
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  // Reads bytes of a tensor, starting at byte `from`. Safe to call from many threads.
  void read(const StoredTensor& tensor, std::uint64_t from, std::span<std::byte> bytes) const;

  // Asks the operating system to start reading these bytes of a tensor.
  void prefetch(const StoredTensor& tensor, std::uint64_t from, std::uint64_t size) const;

 private:
  void open_folder(const std::filesystem::path& folder);
  void open_index(const std::filesystem::path& index);
  void open_file(const std::filesystem::path& file);

  std::filesystem::path origin_;
  std::vector<PositionedFile> files_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace dpo::checkpoint
