#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"
#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// Weights sharded over the ranks of a group (FSDP): a block is all-gathered before it is used, and the next
// one is prefetched; at most two are in memory. A released block stays until its memory is needed, so that
// the last block of a forward pass is still there for the backward pass.
class ShardedStore : public model::Store {
 public:
  // `shards` are this rank's; they are read when a block is gathered.
  ShardedStore(const model::TensorTable& table, const model::Weights& shards, const Mesh& mesh);
  ~ShardedStore() override;

  std::size_t blocks() const override { return blocks_.size(); }
  at::Device device(std::size_t) const override { return shards_.device(); }
  at::ScalarType dtype() const override { return shards_.dtype(); }
  const model::BlockWeights& weights(std::size_t block, std::optional<std::size_t> next) override;
  void release(std::size_t block) override;
  void end_pass() override;

  std::size_t most_gathered() const { return most_gathered_; }  // blocks at once so far

 private:
  struct GatheredBlock {
    model::BlockWeights weights;  // views of a buffer that has memory only while `gathered`
    at::Tensor target;            // the same memory, not tracked by autograd
    comm::Work gather;
    bool gathered = false;
    int users = 0;
  };

  void fetch(std::size_t block);
  bool make_room(std::size_t wanted);
  void free(GatheredBlock& block);

  const model::Weights& shards_;
  std::shared_ptr<comm::Group> group_;
  std::vector<GatheredBlock> blocks_;
  std::size_t gathered_ = 0, most_gathered_ = 0;
};

}  // namespace dpo::shard
