#include "shard/gradients.h"

#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace dpo::shard {
namespace {

void sum_over_replicas(model::Weights& sums, comm::Group& replicas) {
  std::vector<comm::Work> all;
  for (model::BlockWeights& block : sums.blocks) all.push_back(replicas.all_reduce(block.flat));
  for (comm::Work& work : all) work.wait();
}

// Gradients without shards.
class UnshardedGradients : public Gradients {
 public:
  UnshardedGradients(model::Weights& sums, const Mesh& mesh) : sums_(sums), replicas_(mesh.replica) {}

  model::BlockWeights& gradients(std::size_t block) override { return sums_.blocks[block]; }
  void complete(std::size_t) override {}
  void finish() override { sum_over_replicas(sums_, *replicas_); }

 private:
  model::Weights& sums_;
  std::shared_ptr<comm::Group> replicas_;
};

// Whole gradients of a block, kept while a pass adds to them and until every rank has its shard of the sum.
class WholeBlock {
 public:
  WholeBlock(const model::Block& block, const Mesh& mesh, at::TensorOptions options)
      : group_(*mesh.shard),
        shard_size_(model::local_block(block, mesh.layout()).shard_size),
        weights_(
            model::block_views(at::zeros({shard_size_ * group_.size()}, options), block, mesh.layout())) {}

  model::BlockWeights& weights() { return weights_; }

  void reduce() { reduction_ = group_.reduce_scatter(shard(), weights_.flat); }

  void add_to(at::Tensor& sum) {
    const at::NoGradGuard no_grad;
    reduction_.wait();
    sum.add_(shard());
  }

 private:
  at::Tensor shard() const { return weights_.flat.narrow(0, group_.rank() * shard_size_, shard_size_); }

  comm::Group& group_;
  std::int64_t shard_size_;
  model::BlockWeights weights_;
  comm::Work reduction_;
};

// Reduce-scatters a block as soon as it is complete, while the pass continues with the next one. One
// reduction runs at a time.
class ReducedByPass : public Gradients {
 public:
  ReducedByPass(const model::TensorTable& table, model::Weights& sums, const Mesh& mesh, at::ScalarType dtype)
      : table_(table), sums_(sums), mesh_(mesh), dtype_(dtype), open_(table.blocks.size()) {}

  model::BlockWeights& gradients(std::size_t block) override {
    if (!open_[block] || reducing_ == block) {
      wait_for_reduction();
      open_[block].emplace(table_.blocks[block], mesh_, sums_.blocks[block].flat.options().dtype(dtype_));
    }
    return open_[block]->weights();
  }
  bool is_ready() const override { return false; }

  void complete(std::size_t block) override {
    wait_for_reduction();
    open_[block]->reduce();
    reducing_ = block;
  }

  void finish() override {
    wait_for_reduction();
    sum_over_replicas(sums_, *mesh_.replica);
  }

 private:
  void wait_for_reduction() {
    if (!reducing_) return;
    open_[*reducing_]->add_to(sums_.blocks[*reducing_].flat);
    open_[*reducing_].reset();
    reducing_.reset();
  }

  const model::TensorTable table_;
  model::Weights& sums_;
  const Mesh mesh_;
  at::ScalarType dtype_;
  std::vector<std::optional<WholeBlock>> open_;
  std::optional<std::size_t> reducing_;
};

// Accumulates the gradients of all passes of a rank. finish() reduce-scatters them.
class ReducedByUpdate : public Gradients {
 public:
  ReducedByUpdate(const model::TensorTable& table, model::Weights& sums, const Mesh& mesh,
                  at::ScalarType dtype)
      : table_(table), sums_(sums), mesh_(mesh), dtype_(dtype), buffers_(table.blocks.size()) {}

  model::BlockWeights& gradients(std::size_t block) override {
    if (!buffers_[block])
      buffers_[block].emplace(table_.blocks[block], mesh_, sums_.blocks[block].flat.options().dtype(dtype_));
    return buffers_[block]->weights();
  }

  void complete(std::size_t) override {}

  void finish() override {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      gradients(i);  // a rank that computed nothing contributes zeros
      buffers_[i]->reduce();
      buffers_[i]->add_to(sums_.blocks[i].flat);
      buffers_[i].reset();
    }
    sum_over_replicas(sums_, *mesh_.replica);
  }

 private:
  const model::TensorTable table_;
  model::Weights& sums_;
  const Mesh mesh_;
  at::ScalarType dtype_;
  std::vector<std::optional<WholeBlock>> buffers_;
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
        incomplete_(table.blocks.size()) {}

  model::BlockWeights& gradients(std::size_t block) override {
    if (!blocks_[block]) blocks_[block] = new_block(block);
    return *blocks_[block];
  }

  // Blocks complete from the last to the first. A head that shares the embedding's matrix also completes the
  // embedding's block, too early: its own gradients are still to come, so that call is ignored.
  void complete(std::size_t block) override {
    if (block + 1 != incomplete_) return;
    on_block_(block, gradients(block));
    blocks_[block].reset();
    --incomplete_;
  }

 private:
  model::BlockWeights new_block(std::size_t block) const {
    const model::Block& tensors = table_.blocks[block];
    const at::Tensor flat = at::zeros({model::local_block(tensors, {}).shard_size},
                                      weights_.blocks[block].flat.options().dtype(dtype_));
    model::BlockWeights made = model::block_views(flat, tensors, {});
    for (model::NamedTensor& gradient : made.operands) gradient.overwrite = std::make_shared<bool>(true);
    return made;
  }

  const model::TensorTable& table_;
  const model::Weights& weights_;
  at::ScalarType dtype_;
  OnBlock on_block_;
  std::vector<std::optional<model::BlockWeights>> blocks_;
  std::size_t incomplete_;
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
  if (options.accumulate_whole) return std::make_unique<ReducedByUpdate>(table, sums, mesh, at::kFloat);
  return std::make_unique<ReducedByPass>(table, sums, mesh, options.reduce_dtype);
}

}  // namespace dpo::shard
