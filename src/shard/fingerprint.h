#pragma once

#include <cstdint>
#include <string>

#include "model/weights.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A 128-bit hash of the weights of a model or an adapter. It does not depend on the mesh. It changes with any
// element and with the scale of LoRA. Not cryptographic.
class Fingerprint {
 public:
  explicit Fingerprint(const Mesh& mesh) : mesh_(mesh) {}

  // Adds this rank's part of a block. Blocks may come in any order.
  void add(const model::Block& block, const at::Tensor& part);
  // Adds a block that every rank has whole. Each rank hashes a part of it.
  void add_whole(const model::Block& block, const at::Tensor& flat);
  // Returns the hash in hexadecimal. A collective call.
  std::string text() const;

 private:
  Mesh mesh_;
  std::uint64_t first_ = 0, second_ = 0;
};

// Returns the fingerprint of all blocks. A collective call.
std::string fingerprint_of(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh);

}  // namespace dpo::shard
