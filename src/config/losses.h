// Declares the facts about each loss that the schema, data, plan and update read. Its formula is in src/loss.
#pragma once

#include <string_view>

#include "config/choices.h"

namespace dpo::config {

struct LossConfig;

// The examples that a loss learns from: one response to imitate, a pair, or a ranking. Unpaired losses use
// both pairs and single responses with a label, and compare each response on its own.
enum class ExampleKind { Target, Pair, Ranking, Unpaired };

// Values of beta with which a loss is known to work.
struct UsualBeta {
  double least, most;
  const char* text;
  const char* first;  // the value of defaults=modern
};

// A value as YAML.
struct KeyValue {
  std::string_view key, value;
};

struct LossFacts {
  const char* name = "";
  ExampleKind examples = ExampleKind::Pair;
  bool has_reference = true;
  bool has_margins = false;             // uses the margins of pairs
  bool compares_batch = false;          // compares examples with each other: needs the whole batch at once
  bool needs_kl = false;                // needs an estimate of the KL divergence, from another forward pass
  bool has_constant_gradients = false;  // they do not depend on the scores
  bool takes_rates_of_sft = false;      // works with SFT's learning rates, which are larger
  bool must_smooth = false;             // loss.label_smoothing must be > 0
  std::string_view keys = "";           // its own keys without "loss.", separated by spaces
  KeyValue preset = {};                 // what its preset sets to another value than the schema's default
  UsualBeta beta = {0.01, 1, "0.1 to 0.5", "0.1"};

  bool is_preference() const { return examples != ExampleKind::Target; }
  // Returns how often an update scores a batch in addition to the passes for its gradients.
  int scoring_passes() const { return (compares_batch ? 1 : 0) + (needs_kl ? 1 : 0); }
};

LossFacts facts_of(Loss loss);

bool uses_reference(const LossConfig& loss);

}  // namespace dpo::config
