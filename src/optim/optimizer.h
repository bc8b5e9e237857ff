// optim: optimizers by PyTorch's names and defaults, schedules of the learning rate, clipping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/weights.h"

namespace dpo::optim {

// An array with a number for each parameter, laid out like the weights: a flat buffer for each block.
struct StateArray {
  std::string name;
  std::vector<at::Tensor> blocks;
};

// What is kept for one tensor of the weights, with a shape of its own.
struct StateTensor {
  std::string name;
  std::size_t block = 0, tensor = 0;  // in the table
  at::Tensor values;
};

// All that an optimizer keeps beside the parameters: the tensors themselves, not copies.
struct State {
  std::vector<StateArray> arrays;
  std::vector<StateTensor> tensors;
};

// Updates weights in place. Each of its numbers beside a parameter has the dtype of the weights; with 16-bit
// weights the arithmetic is float32 and results are rounded up or down at random, in proportion to how near
// they are, so that small updates are not lost.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update. `seed` is that of the random rounding.
  void step(model::Weights& weights, const model::Weights& gradients, double learning_rate,
            std::uint64_t seed);

  // What must be saved to go on as if never stopped: this, and the updates so far.
  virtual State state() const = 0;
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

 protected:
  // The update of block `block`, where updates() counts this one already.
  virtual void update(std::size_t block, model::BlockWeights& weights, const model::BlockWeights& gradients,
                      double learning_rate, std::uint64_t seed) = 0;

 private:
  std::int64_t updates_ = 0;
};

// What of an optimizer may be chosen; the rest is torch.optim's default. Only Adam and AdamW have betas, and
// those and RMSprop an epsilon. Every parameter decays, as in a single parameter group of torch.optim.
struct Settings {
  std::optional<std::pair<double, double>> betas{};
  std::optional<double> epsilon{}, weight_decay{};
};

// RMSprop, Adam, AdamW, SGD or Adafactor, for weights like these.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const model::Weights& weights,
                                          const Settings& settings = {});

}  // namespace dpo::optim
