#include "shard/gradients.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace dpo::shard {
namespace {

// Counts the blocks that a pass completes, from the last to the first. A head that shares the embedding's
// matrix also completes the embedding's block, too early: its own gradients are still to come, so that call
// does not count.
class CompleteBlocks {
 public:
  explicit CompleteBlocks(std::size_t blocks) : incomplete_(blocks) {}

  bool add(std::size_t block) {
    if (block + 1 != incomplete_) return false;
    --incomplete_;
    return true;
  }

 private:
  std::size_t incomplete_;
};

// Makes the next gradient of each operand replace its values.
void overwrite_next(model::BlockWeights& block) {
  for (model::NamedTensor& gradient : block.operands) {
    if (!gradient.overwrite) gradient.overwrite = std::make_shared<bool>();
    *gradient.overwrite = true;
  }
}

// Zeroes gradients that no pass has computed.
void zero_missing(model::BlockWeights& block) {
  for (model::NamedTensor& gradient : block.operands)
    if (std::exchange(*gradient.overwrite, false)) gradient.tensor.zero_();
}

// Sums each block over replicas, once per update.
class ReplicaSums {
 public:
  ReplicaSums(model::Weights& sums, const Mesh& mesh) : sums_(sums), replicas_(mesh.replica) {}

  void begin() { started_.assign(sums_.blocks.size(), false); }

  void start(std::size_t block) {
    if (replicas_->size() == 1 || started_[block]) return;
    started_[block] = true;
    works_.push_back(replicas_->all_reduce(sums_.blocks[block].flat));
  }

  void finish() {
    for (std::size_t i = 0; i < sums_.blocks.size(); ++i) start(i);
    for (comm::Work& work : works_) work.wait();
    works_.clear();
  }

 private:
  model::Weights& sums_;
  std::shared_ptr<comm::Group> replicas_;
  std::vector<bool> started_;
  std::vector<comm::Work> works_;
};

// Gradients without shards.
class UnshardedGradients : public Gradients {
 public:
  UnshardedGradients(model::Weights& sums, const Mesh& mesh) : sums_(sums), replicas_(sums, mesh) {
    UnshardedGradients::begin();
  }

  model::BlockWeights& gradients(std::size_t block) override { return sums_.blocks[block]; }

  void begin() override {
    for (model::BlockWeights& block : sums_.blocks) overwrite_next(block);
    replicas_.begin();
    last_pass_.reset();
  }

  void begin_last_pass() override { last_pass_.emplace(sums_.blocks.size()); }

  void complete(std::size_t block) override {
    if (!last_pass_ || !last_pass_->add(block)) return;
    zero_missing(sums_.blocks[block]);
    replicas_.start(block);
  }

  void finish() override {
    for (model::BlockWeights& block : sums_.blocks) zero_missing(block);
    replicas_.finish();
  }

 private:
  model::Weights& sums_;
  ReplicaSums replicas_;
  std::optional<CompleteBlocks> last_pass_;
};

// Whole gradients of a block, kept while passes add to them and until every rank has its shard of the sum.
// The first gradient of each tensor is written, not added, so the memory is not zeroed first.
class WholeBlock {
 public:
  WholeBlock(const model::Block& block, const Mesh& mesh, at::TensorOptions options)
      : group_(*mesh.shard),
        shard_size_(model::local_block(block, mesh.layout()).shard_size),
        weights_(
            model::block_views(at::empty({shard_size_ * group_.size()}, options), block, mesh.layout())) {
    zero_padding();
    overwrite_next(weights_);
  }

  model::BlockWeights& weights() { return weights_; }

  void reduce() {
    zero_missing(weights_);
    reduction_ = group_.reduce_scatter(shard(), weights_.flat);
  }

  // Adds this rank's shard to `sum`, or replaces its values.
  void add_to(at::Tensor& sum, bool overwrite) {
    const at::NoGradGuard no_grad;
    reduction_.wait();
    overwrite ? sum.copy_(shard()) : sum.add_(shard());
  }

 private:
  at::Tensor shard() const { return weights_.flat.narrow(0, group_.rank() * shard_size_, shard_size_); }

  void zero_padding() {
    std::int64_t end = 0;
    const auto zero_until = [&](std::int64_t begin) {
      if (begin > end) weights_.flat.narrow(0, end, begin - end).zero_();
    };
    for (const model::NamedTensor& named : weights_.tensors) {
      const std::int64_t begin = named.tensor.storage_offset();
      zero_until(begin);
      end = std::max(end, begin + named.tensor.numel());
    }
    zero_until(weights_.flat.numel());
  }

  comm::Group& group_;
  std::int64_t shard_size_;
  model::BlockWeights weights_;
  comm::Work reduction_;
};

// Reduce-scatters a block as soon as it is complete, in every pass or, if passes are accumulated, in the last
// one, while the pass continues with the next block. One reduction runs at a time.
class ShardedGradients : public Gradients {
 public:
  ShardedGradients(const model::TensorTable& table, model::Weights& sums, const Mesh& mesh,
                   at::ScalarType dtype, bool accumulates)
      : table_(table),
        sums_(sums),
        mesh_(mesh),
        dtype_(dtype),
        accumulates_(accumulates),
        replicas_(sums, mesh),
        open_(table.blocks.size()) {
    ShardedGradients::begin();
  }

  model::BlockWeights& gradients(std::size_t block) override {
    const bool is_reducing = reducing_ && reducing_->block == block;
    if (open_[block] && !is_reducing) return open_[block]->weights();
    if (!accumulates_) wait_for_reduction();
    open_[block].emplace(table_.blocks[block], mesh_, sums_.blocks[block].flat.options().dtype(dtype_));
    return open_[block]->weights();
  }
  bool is_ready() const override { return accumulates_; }

  void begin() override {
    is_new_.assign(sums_.blocks.size(), true);
    replicas_.begin();
    last_pass_.reset();
  }

  void begin_last_pass() override { last_pass_.emplace(sums_.blocks.size()); }

  void complete(std::size_t block) override {
    const bool is_last = last_pass_ && last_pass_->add(block);
    if (!accumulates_ || is_last) reduce(block, is_last);
  }

  void finish() override {
    wait_for_reduction();
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!is_new_[i]) continue;
      gradients(i);  // a rank that computed nothing contributes zeros
      reduce(i, /*is_last=*/true);
      wait_for_reduction();
    }
    replicas_.finish();
  }

 private:
  struct Reduction {
    std::size_t block = 0;
    bool is_last = false;  // of this block in the update
  };

  void reduce(std::size_t block, bool is_last) {
    wait_for_reduction();
    open_[block]->reduce();
    reducing_ = Reduction{block, is_last};
  }

  void wait_for_reduction() {
    if (!reducing_) return;
    const auto [block, is_last] = *std::exchange(reducing_, std::nullopt);
    open_[block]->add_to(sums_.blocks[block].flat, /*overwrite=*/is_new_[block]);
    is_new_[block] = false;
    open_[block].reset();
    if (is_last) replicas_.start(block);
  }

  const model::TensorTable table_;
  model::Weights& sums_;
  const Mesh mesh_;
  at::ScalarType dtype_;
  bool accumulates_;
  ReplicaSums replicas_;
  std::vector<std::optional<WholeBlock>> open_;
  std::vector<bool> is_new_;  // blocks whose sums are still those of the last update
  std::optional<Reduction> reducing_;
  std::optional<CompleteBlocks> last_pass_;
};

class FreedByBlock : public model::GradientStore {
 public:
  FreedByBlock(const model::TensorTable& table, const model::Weights& weights, at::ScalarType dtype,
               OnBlock on_block)
      : table_(table),
        weights_(weights),
        dtype_(dtype),
        on_block_(std::move(on_block)),
        blocks_(table.blocks.size()),
        complete_(table.blocks.size()) {}

  model::BlockWeights& gradients(std::size_t block) override {
    if (!blocks_[block]) blocks_[block] = new_block(block);
    return *blocks_[block];
  }

  void complete(std::size_t block) override {
    if (!complete_.add(block)) return;
    on_block_(block, gradients(block));
    blocks_[block].reset();
  }

 private:
  model::BlockWeights new_block(std::size_t block) const {
    const model::Block& tensors = table_.blocks[block];
    const at::Tensor flat = at::zeros({model::local_block(tensors, {}).shard_size},
                                      weights_.blocks[block].flat.options().dtype(dtype_));
    model::BlockWeights made = model::block_views(flat, tensors, {});
    overwrite_next(made);
    return made;
  }

  const model::TensorTable& table_;
  const model::Weights& weights_;
  at::ScalarType dtype_;
  OnBlock on_block_;
  std::vector<std::optional<model::BlockWeights>> blocks_;
  CompleteBlocks complete_;
};

}  // namespace

std::unique_ptr<model::GradientStore> make_freed_gradients(const model::TensorTable& table,
                                                           const model::Weights& weights,
                                                           at::ScalarType dtype, OnBlock on_block) {
  return std::make_unique<FreedByBlock>(table, weights, dtype, std::move(on_block));
}

std::unique_ptr<Gradients> make_gradients(const model::TensorTable& table, model::Weights& sums,
                                          const Mesh& mesh, const GradientOptions& options) {
  if (mesh.shard->size() == 1) return std::make_unique<UnshardedGradients>(sums, mesh);
  const at::ScalarType dtype = options.accumulate_whole ? at::kFloat : options.reduce_dtype;
  return std::make_unique<ShardedGradients>(table, sums, mesh, dtype, options.accumulate_whole);
}

}  // namespace dpo::shard
