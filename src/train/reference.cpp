#include "train/reference.h"

namespace dpo::train {
namespace {

class NoReference : public Reference {
 public:
  std::vector<double> scores(const data::Forest& forest, const model::Batch&,
                             std::span<const std::uint32_t>) override {
    return std::vector<double>(static_cast<std::size_t>(forest.responses()));
  }
};

class LiveReference : public Reference {
 public:
  LiveReference(model::Model model, model::Weights weights, const model::PassOptions& options)
      : model_(std::move(model)), weights_(std::move(weights)), options_(options) {}

  std::vector<double> scores(const data::Forest&, const model::Batch& batch,
                             std::span<const std::uint32_t>) override {
    return to_host(model::forward(model_, weights_, batch, options_).log_probs);
  }

 private:
  model::Model model_;
  model::Weights weights_;
  model::PassOptions options_;
};

}  // namespace

std::unique_ptr<Reference> no_reference() { return std::make_unique<NoReference>(); }

std::unique_ptr<Reference> live_reference(model::Model model, model::Weights weights,
                                          const model::PassOptions& options) {
  return std::make_unique<LiveReference>(std::move(model), std::move(weights), options);
}

std::vector<double> to_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kDouble).contiguous();
  const double* data = host.const_data_ptr<double>();
  return {data, data + host.numel()};
}

}  // namespace dpo::train
