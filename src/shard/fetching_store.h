#pragma once

#include <vector>

#include "comm/group.h"
#include "config/choices.h"
#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A store of weights that are elsewhere or in another form. A block is fetched into temporary memory before
// it is used, and the next one is prefetched. A released block stays until its memory is needed, so the last
// block of a forward pass is still there for the backward pass. A store with room for all blocks may keep
// them for an update, or for the whole run if their weights never change.
class FetchingStore : public model::Store {
 public:
  std::size_t blocks() const override { return blocks_.size(); }
  at::Device device(std::size_t block) const override { return blocks_[block].weights.flat.device(); }
  at::ScalarType dtype() const override { return blocks_.front().weights.flat.scalar_type(); }
  const model::BlockWeights& weights(std::size_t block, std::optional<std::size_t> next) override;
  void release(std::size_t block) override;
  void end_pass() override;
  void end_update() override;

  std::size_t most_fetched() const { return most_fetched_; }  // most blocks in memory at once so far

 protected:
  static constexpr std::size_t kOneAndNext = 2;  // one in use, one being prefetched

  // Keeps at most `room` blocks in memory, each on its device.
  FetchingStore(const model::TensorTable& table, at::ScalarType dtype, const std::vector<at::Device>& devices,
                const Mesh& mesh, std::size_t room = kOneAndNext);

  // Keeps fetched blocks until an update or for ever, in room for all of them.
  void keep_until(config::Reshard reshard);

  // Makes this block's fetches read its quantized bytes instead of its values.
  void fetch_bytes_of(std::size_t block, const model::QuantizedBlock& quantized);

  // Starts to write a block's weights into `flat`, which is not sharded. The returned Work ends when they are
  // there.
  virtual comm::Work fetch(std::size_t block, const at::Tensor& flat) = 0;

  // Waits until nothing is being fetched. Destructors of derived classes call it.
  void finish();

 private:
  struct TemporaryBlock {
    model::BlockWeights weights;  // views of a buffer that has memory only while `fetched`
    at::Tensor target;            // the same memory, not tracked by autograd
    comm::Work work;
    bool fetched = false;
    int users = 0;
  };

  void set_block(std::size_t block, model::BlockWeights weights);
  void start(std::size_t block);
  bool make_room(std::size_t wanted);
  void free(TemporaryBlock& block);
  void free_unused();

  std::vector<TemporaryBlock> blocks_;
  std::size_t room_;
  config::Reshard reshard_ = config::Reshard::pass;
  std::size_t fetched_ = 0, most_fetched_ = 0;
};

}  // namespace dpo::shard
