#include "train/reference.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"

namespace dpo::train {
namespace {

class NoReference : public Reference {
 public:
  at::Tensor scores(const Microbatch& microbatch, const ExampleBatch&) override {
    return at::zeros({microbatch.forest.responses()}, at::kDouble);
  }
};

class LiveReference : public Reference {
 public:
  explicit LiveReference(ReferenceModel model) : model_(std::move(model)) {}

  at::Tensor scores(const Microbatch& microbatch, const ExampleBatch&) override {
    return model_.scores(microbatch.packed);
  }

  const ReferenceModel* model() const override { return &model_; }

 private:
  ReferenceModel model_;
};

class CachedReference : public Reference {
 public:
  explicit CachedReference(CachedScores scores) : scores_(std::move(scores)) {}

  at::Tensor scores(const Microbatch& microbatch, const ExampleBatch& batch) override {
    const ScoreTable& table = batch.split == data::Split::Train ? scores_.train : scores_.test;
    return at::tensor(table.of(microbatch.forest, batch.indices), at::kDouble);
  }

 private:
  CachedScores scores_;
};

}  // namespace

at::Tensor ReferenceModel::scores(const model::Batch& batch) const {
  return model::forward(local.model(), local.store(), batch, pass).log_probs;
}

ReferenceModel placed(ReferenceModel model, const config::RunConfig& config, const shard::Mesh& mesh) {
  if (!storage_of(config, mesh).reference_on_host) return model;
  if (mesh.shard->size() > 1)
    throw UserError(
        "offload: a sharded reference cannot be offloaded; use offload=optimizer or offload=none");
  return {model.local.offloaded(mesh), model.pass};
}

std::unique_ptr<Reference> no_reference() { return std::make_unique<NoReference>(); }

std::unique_ptr<Reference> live_reference(ReferenceModel model) {
  return std::make_unique<LiveReference>(std::move(model));
}

std::unique_ptr<Reference> cached_reference(CachedScores scores) {
  return std::make_unique<CachedReference>(std::move(scores));
}

std::vector<double> to_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().to(at::kDouble).contiguous();
  const double* data = host.const_data_ptr<double>();
  return {data, data + host.numel()};
}

}  // namespace dpo::train
