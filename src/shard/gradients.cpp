#include "shard/gradients.h"

#include <optional>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace dpo::shard {
namespace {

void sum_over_replicas(model::Weights& sums, comm::Group& replicas) {
  std::vector<comm::Pending> pending;
  for (model::BlockWeights& block : sums.blocks) pending.push_back(replicas.all_reduce(block.flat));
  for (comm::Pending& one : pending) one.wait();
}

// Every rank holds all of its model.
class Resident : public Gradients {
 public:
  Resident(model::Weights& sums, const Mesh& mesh) : sums_(sums), replicas_(mesh.replica) {}

  model::BlockWeights& gradients(std::size_t block) override { return sums_.blocks[block]; }
  void complete(std::size_t) override {}
  void finish() override { sum_over_replicas(sums_, *replicas_); }

 private:
  model::Weights& sums_;
  std::shared_ptr<comm::Group> replicas_;
};

// A block's buffer while gradients are added to it, and until every rank has its part of the sum.
class Buffer {
 public:
  Buffer(const model::Block& block, const Mesh& mesh, at::TensorOptions options)
      : group_(*mesh.shard),
        part_(model::local_block(block, mesh.layout()).shard_size),
        weights_(model::block_in(at::zeros({part_ * group_.size()}, options), block, mesh.layout())) {}

  model::BlockWeights& weights() { return weights_; }

  void reduce() { pending_ = group_.reduce_scatter(own(), weights_.flat); }

  void add_to(at::Tensor& sum) {
    const at::NoGradGuard no_grad;
    pending_.wait();
    sum.add_(own());
  }

 private:
  at::Tensor own() const { return weights_.flat.narrow(0, group_.rank() * part_, part_); }

  comm::Group& group_;
  std::int64_t part_;
  model::BlockWeights weights_;
  comm::Pending pending_;
};

// A block is exchanged as soon as it is complete, while the pass goes on with the next; one at a time.
class Reduced : public Gradients {
 public:
  Reduced(const model::TensorTable& table, model::Weights& sums, const Mesh& mesh, at::ScalarType type)
      : table_(table), sums_(sums), mesh_(mesh), type_(type), open_(table.blocks.size()) {}

  model::BlockWeights& gradients(std::size_t block) override {
    if (!open_[block] || moving_ == block) {
      settle();
      open_[block].emplace(table_.blocks[block], mesh_, sums_.blocks[block].flat.options().dtype(type_));
    }
    return open_[block]->weights();
  }

  void complete(std::size_t block) override {
    settle();
    open_[block]->reduce();
    moving_ = block;
  }

  void finish() override {
    settle();
    sum_over_replicas(sums_, *mesh_.replica);
  }

 private:
  void settle() {
    if (!moving_) return;
    open_[*moving_]->add_to(sums_.blocks[*moving_].flat);
    open_[*moving_].reset();
    moving_.reset();
  }

  const model::TensorTable table_;
  model::Weights& sums_;
  const Mesh mesh_;
  at::ScalarType type_;
  std::vector<std::optional<Buffer>> open_;
  std::optional<std::size_t> moving_;
};

// Every rank sums all of its passes by itself first.
class Whole : public Gradients {
 public:
  Whole(const model::TensorTable& table, model::Weights& sums, const Mesh& mesh, at::ScalarType type)
      : table_(table), sums_(sums), mesh_(mesh), type_(type), buffers_(table.blocks.size()) {}

  model::BlockWeights& gradients(std::size_t block) override {
    if (!buffers_[block])
      buffers_[block].emplace(table_.blocks[block], mesh_, sums_.blocks[block].flat.options().dtype(type_));
    return buffers_[block]->weights();
  }

  void complete(std::size_t) override {}

  void finish() override {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      gradients(i);  // a rank that computed nothing takes part with zeros
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
  at::ScalarType type_;
  std::vector<std::optional<Buffer>> buffers_;
};

}  // namespace

std::unique_ptr<Gradients> make_gradients(const model::TensorTable& table, model::Weights& sums,
                                          const Mesh& mesh, const GradientOptions& options) {
  if (mesh.shard->size() == 1) return std::make_unique<Resident>(sums, mesh);
  if (options.whole) return std::make_unique<Whole>(table, sums, mesh, at::kFloat);
  return std::make_unique<Reduced>(table, sums, mesh, options.reduced);
}

}  // namespace dpo::shard
