#pragma once

#include <cstdint>
#include <string>

#include "model/weights.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A 128-bit hash of a model's weights, or of an adapter's: it does not depend on the mesh, and changes with
// any element and with the scale of LoRA. Not cryptographic.
class Fingerprint {
 public:
  explicit Fingerprint(const Mesh& mesh) : mesh_(mesh) {}

  // This rank's part of a block. The order does not matter.
  void add(const model::Block& block, const at::Tensor& part);
  // A block that every rank has whole; each counts a part of it.
  void add_whole(const model::Block& block, const at::Tensor& flat);
  // In hexadecimal. A collective call.
  std::string text() const;

 private:
  Mesh mesh_;
  std::uint64_t first_ = 0, second_ = 0;
};

// The same of all blocks.
std::string fingerprint_of(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh);

}  // namespace dpo::shard
