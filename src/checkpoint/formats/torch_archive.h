#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/formats/pickle.h"

namespace dpo::checkpoint {

// A file that torch.save wrote (policy.pt, pytorch_model.bin), mapped; its pickle is never run.
class TorchArchive {
 public:
  explicit TorchArchive(const std::filesystem::path& path);

  const std::vector<PickledTensor>& tensors() const { return tensors_; }

  // From the first element of the tensor to the end of its storage; checked to hold all that its strides
  // reach.
  std::span<const std::byte> bytes_of(const PickledTensor& tensor) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, std::span<const std::byte>> files_;
  std::string prefix_;  // torch.save puts everything into one folder, named as it likes
  std::vector<PickledTensor> tensors_;
};

}  // namespace dpo::checkpoint
