#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"
#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// Weights that the ranks of a group divide: a block is gathered before it is used and the next one meanwhile;
// two are there at most. A block that was given back stays until its room is needed, so that the last block
// of a forward pass is still there for the backward pass.
class Sharded : public model::Store {
 public:
  // `parts` are this rank's; they are read when a block is gathered.
  Sharded(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh);
  ~Sharded() override;

  std::size_t blocks() const override { return blocks_.size(); }
  at::Device device(std::size_t) const override { return parts_.device(); }
  at::ScalarType dtype() const override { return parts_.dtype(); }
  const model::BlockWeights& weights(std::size_t block, std::optional<std::size_t> next) override;
  void release(std::size_t block) override;
  void rest() override;

  std::size_t most_gathered() const { return most_gathered_; }  // blocks at once so far

 private:
  struct Gathered {
    model::BlockWeights weights;  // views of a buffer that has memory only while `here`
    at::Tensor target;            // the same memory, unknown to autograd
    comm::Pending arriving;
    bool here = false;
    int users = 0;
  };

  void fetch(std::size_t block);
  bool make_room(std::size_t wanted);
  void drop(Gathered& block);

  const model::Weights& parts_;
  std::shared_ptr<comm::Group> group_;
  std::vector<Gathered> blocks_;
  std::size_t gathered_ = 0, most_gathered_ = 0;
};

}  // namespace dpo::shard
