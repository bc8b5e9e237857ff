#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "checkpoint/formats/pickle.h"

namespace dpo::checkpoint {

// A file written by torch.save (policy.pt, pytorch_model.bin), mapped into memory. Its pickle is never run.
class TorchArchive {
 public:
  explicit TorchArchive(const std::filesystem::path& path);

  const std::vector<PickledTensor>& tensors() const { return tensors_; }

  // Returns the bytes from the tensor's first element to the last that its strides reach. They are checked to
  // be within its storage.
  std::span<const std::byte> bytes_of(const PickledTensor& tensor) const;
  std::uint64_t offset_of(const PickledTensor& tensor) const;  // position of those bytes in the file

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, std::span<const std::byte>> files_;
  std::string prefix_;  // torch.save puts everything into one folder, whose name varies
  std::vector<PickledTensor> tensors_;
};

// Writes a policy.pt as the original does: torch.save({"step_idx": 0, "state": STATE_DICT, "metrics": {}}).
// torch.load reads it, also with weights_only. `shared` has additional names, each with the tensor whose
// storage it shares, as for a tied head. The file is complete or absent.
void write_policy(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                  const std::vector<std::pair<std::string, std::string>>& shared);

}  // namespace dpo::checkpoint
