#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <vector>

#include "base/files.h"
#include "checkpoint/formats/pickle.h"

namespace dpo::checkpoint {

// A file that torch.save wrote (policy.pt, pytorch_model.bin), mapped; its pickle is never run.
class TorchArchive {
 public:
  explicit TorchArchive(const std::filesystem::path& path);

  const std::vector<PickledTensor>& tensors() const { return tensors_; }

  // From the first element of the tensor to behind the last that its strides reach; checked to be within its
  // storage.
  std::span<const std::byte> bytes_of(const PickledTensor& tensor) const;
  std::uint64_t offset_of(const PickledTensor& tensor) const;  // where they stand in the file

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, std::span<const std::byte>> files_;
  std::string prefix_;  // torch.save puts everything into one folder, named as it likes
  std::vector<PickledTensor> tensors_;
};

}  // namespace dpo::checkpoint
