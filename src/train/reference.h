#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/forest.h"
#include "model/pass.h"

namespace dpo::train {

// Where the log-probabilities of the reference come from.
class Reference {
 public:
  virtual ~Reference() = default;

  // Of every response of a forest, whose examples are numbered within a batch; `numbers` are those of the
  // batch's examples in the split.
  virtual std::vector<double> scores(const data::Forest& forest, const model::Batch& batch,
                                     std::span<const std::uint32_t> numbers) = 0;
};

// Losses without a reference get zeros.
std::unique_ptr<Reference> no_reference();

// Computed beside the policy, by the frozen weights.
std::unique_ptr<Reference> live_reference(model::Model model, model::Weights weights,
                                          const model::PassOptions& options);

// Log-probabilities as numbers of the host.
std::vector<double> to_host(const at::Tensor& tensor);

}  // namespace dpo::train
