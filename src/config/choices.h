// Keys whose value is one of a few names. choices.cpp defines the names used in configurations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dpo::config {

// The set of defaults that a run starts from: direct-preference-optimization's, or the current ones
// (config/modern.h).
enum class Defaults { original, modern };

enum class Trainer { Basic, Fsdp, TensorParallel };

enum class Optimizer { RMSprop, Adam, AdamW, SGD, Adafactor };

// How the optimizer state is stored.
enum class OptimizerState { float32, bfloat16, eight_bit };

// The parts of a run that stay in host memory while the device does not need them.
enum class Offload { none, optimizer, reference, both };
inline bool offloads_optimizer(Offload offload) {
  return offload == Offload::optimizer || offload == Offload::both;
}
inline bool offloads_reference(Offload offload) {
  return offload == Offload::reference || offload == Offload::both;
}

// Storage format of an adapter's frozen model if it differs from the compute dtype.
enum class BaseDtype { nf4, int8, fp8 };

// The weights that are trained in addition to, or instead of, the model's own.
enum class Adapter { none, lora };

enum class TrainOn { assistant, last };  // all assistant turns of a conversation, or the last

enum class Schedule { constant, linear, cosine };  // schedule of the learning rate

// `automatic` is allowed only for model.fsdp_policy_mp, where the plan decides.
enum class Dtype { float32, bfloat16, float16, automatic };

// When the reference's log-probabilities are computed: in every update, or once before training. `automatic`
// lets the plan decide.
enum class ReferenceScoring { automatic, live, cached };

// The texts that a run samples at its evaluations. `automatic` samples few and short ones, in a small share
// of the run's time. `whole` samples as many and as long ones as other keys request.
enum class Sampling { automatic, whole, none };

// The gradients that a rank accumulates over the microbatches of an update: its shard, or all of them
// (no_sync).
enum class Accumulation { sharded, whole };

// When a rank frees the copies of sharded blocks that it has gathered: after each pass, after each update, or
// never (FSDP2's reshard_after_forward).
enum class Reshard { pass, update, never };

// The metric of evaluations by which the best checkpoint is chosen.
enum class BestMetric { loss, accuracies, margins, chosen };

// Divergence between policy and reference.
enum class Divergence { reverse_kl, forward_kl, js };

// Handling of rows that cannot be read, and of examples that should not be trained on.
enum class BadRowPolicy { fail, skip };
enum class BadExamplePolicy { keep, drop, fail };

// config/losses.h has the facts about each loss, and docs/losses.md its formula.
enum class Loss {
  sft,
  dpo,
  ipo,
  hinge,
  robust,
  exo_pair,
  nca_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  discopop,
  bco_pair,
  sigmoid_norm,
  aot,
  simpo,
  cpo,
  orpo,
  plackett_luce,
  kto,
};

// Returns the name used in YAML, on the command line and in the files of a run.
std::string name_of(Defaults defaults);
std::string name_of(Trainer trainer);
std::string name_of(Optimizer optimizer);
std::string name_of(OptimizerState state);
std::string name_of(Offload offload);
std::string name_of(BaseDtype dtype);
std::string name_of(Adapter adapter);
std::string name_of(TrainOn train_on);
std::string name_of(Schedule schedule);
std::string name_of(Dtype dtype);
std::string name_of(ReferenceScoring scoring);
std::string name_of(Sampling sampling);
std::string name_of(Accumulation accumulation);
std::string name_of(Reshard reshard);
std::string name_of(BestMetric metric);
std::string name_of(Divergence divergence);
std::string name_of(BadRowPolicy policy);
std::string name_of(BadExamplePolicy policy);
std::string name_of(Loss loss);

// Returns the name for a key that may be null.
template <class Choice>
std::string name_of(std::optional<Choice> choice) {
  return choice ? name_of(*choice) : "null";
}

template <class Choice>
concept NamedChoice = std::is_enum_v<Choice> && requires(Choice choice) {
  name_of(choice);
};

// Returns all values in the order of their declaration.
template <NamedChoice Choice>
std::vector<Choice> all_choices() {
  std::vector<Choice> all;
  for (int i = 0; !name_of(static_cast<Choice>(i)).empty(); ++i) all.push_back(static_cast<Choice>(i));
  return all;
}

template <NamedChoice Choice>
std::optional<Choice> find_choice(std::string_view name) {
  for (const Choice choice : all_choices<Choice>())
    if (name_of(choice) == name) return choice;
  return std::nullopt;
}

template <NamedChoice Choice>
std::vector<std::string> names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice choice : choices) names.push_back(name_of(choice));
  return names;
}

}  // namespace dpo::config
