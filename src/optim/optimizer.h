// optim contains optimizers with PyTorch's names and defaults, learning-rate schedules, and clipping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/choices.h"
#include "model/weights.h"

namespace dpo::optim {

// State with one element per parameter, or per group of `group` parameters, laid out like the weights: a flat
// buffer for each block.
struct StateArray {
  std::string name;
  std::vector<at::Tensor> blocks;
  std::int64_t group = 1;
};

// State of one tensor of the weights. Its shape may differ from the tensor's.
struct StateTensor {
  std::string name;
  std::size_t block = 0, tensor = 0;  // in the table
  at::Tensor values;
};

// The optimizer state. It refers to the tensors themselves, not to copies.
struct State {
  std::vector<StateArray> arrays;
  std::vector<StateTensor> tensors;
};

// Optional parts of an optimizer step.
struct StepOptions {
  double gradient_scale = 1;             // factor of the gradients, for clipping
  const model::Weights* copy = nullptr;  // receives the updated weights in another dtype, if set
};

// Updates weights in place. The arithmetic is float32; 16-bit weights and state are rounded stochastically,
// so that small updates are not lost.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Performs one update. `seed` is for stochastic rounding.
  void step(model::Weights& weights, const model::Weights& gradients, double learning_rate,
            std::uint64_t seed, const StepOptions& options = {});
  // Perform one update in parts: begin_step(), then step_block() once for every block, in the order of a
  // backward pass, the last block first.
  void begin_step() { ++updates_; }
  void step_block(std::size_t block, model::Weights& weights, const model::BlockWeights& gradients,
                  double learning_rate, std::uint64_t seed, const StepOptions& options = {});

  // A checkpoint must save the state and the number of updates so far to resume exactly.
  virtual State state() const = 0;
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

 protected:
  struct BlockStep {
    double learning_rate = 0;
    std::uint64_t seed = 0;
    double gradient_scale = 1;
    at::Tensor copy = {};  // receives the block's flat buffer in another dtype; undefined: none
  };
  // Updates block `block`; updates() already includes this update. Returns true if the copy is written too.
  virtual bool update(std::size_t block, model::BlockWeights& weights, const model::BlockWeights& gradients,
                      const BlockStep& step) = 0;

 private:
  std::int64_t updates_ = 0;
};

// Settings that the user can choose; everything else is torch.optim's default. Only Adam and AdamW have
// betas; only those and RMSprop have an epsilon. Weight decay applies to every parameter, as in a single
// parameter group of torch.optim.
struct OptimizerSettings {
  std::optional<std::pair<double, double>> betas{};
  std::optional<double> epsilon{}, weight_decay{};
  std::optional<config::OptimizerState> state{};  // of RMSprop, Adam and AdamW; null: dtype of the weights
  bool offload = false;                           // keep that state in host memory
  // Rank among those that share each block's buffer, which makes rounding independent of sharding.
  std::int64_t shard_rank = 0;
};

// Makes RMSprop, Adam, AdamW, SGD or Adafactor, for weights like these.
std::unique_ptr<Optimizer> make_optimizer(config::Optimizer kind, const model::Weights& weights,
                                          const OptimizerSettings& settings = {});

}  // namespace dpo::optim
