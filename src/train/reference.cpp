#include "train/reference.h"

namespace dpo::train {
namespace {

class NoReference : public Reference {
 public:
  std::vector<double> scores(const Microbatch& microbatch, const ExampleBatch&) override {
    return std::vector<double>(static_cast<std::size_t>(microbatch.forest.responses()));
  }
};

class LiveReference : public Reference {
 public:
  explicit LiveReference(ReferenceModel model) : model_(std::move(model)) {}

  std::vector<double> scores(const Microbatch& microbatch, const ExampleBatch&) override {
    return model_.scores(microbatch.packed);
  }

 private:
  ReferenceModel model_;
};

class CachedReference : public Reference {
 public:
  explicit CachedReference(CachedScores scores) : scores_(std::move(scores)) {}

  std::vector<double> scores(const Microbatch& microbatch, const ExampleBatch& batch) override {
    return (batch.split == data::Split::Train ? scores_.train : scores_.test)
        .of(microbatch.forest, batch.indices);
  }

 private:
  CachedScores scores_;
};

}  // namespace

std::vector<double> ReferenceModel::scores(const model::Batch& batch) const {
  return to_host(model::forward(local.model(), local.store(), batch, pass).log_probs);
}

std::unique_ptr<Reference> no_reference() { return std::make_unique<NoReference>(); }

std::unique_ptr<Reference> live_reference(ReferenceModel model) {
  return std::make_unique<LiveReference>(std::move(model));
}

std::unique_ptr<Reference> cached_reference(CachedScores scores) {
  return std::make_unique<CachedReference>(std::move(scores));
}

std::vector<double> to_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kDouble).contiguous();
  const double* data = host.const_data_ptr<double>();
  return {data, data + host.numel()};
}

}  // namespace dpo::train
