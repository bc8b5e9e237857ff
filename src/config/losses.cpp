#include "config/losses.h"

#include "config/run_config.h"

namespace dpo::config {
namespace {

// Losses over means per token need larger betas than losses over sums.
constexpr UsualBeta kBetaPerToken = {1, 20, "2 to 10", "2"};

}  // namespace

// There is no `default`, so that the compiler reports a loss without facts. A number beyond the last loss has
// no name, which ends all_choices().
LossFacts facts_of(Loss loss) {
  using enum ExampleKind;
  switch (loss) {
    case Loss::sft:
      return {.name = "sft",
              .examples = Target,
              .has_reference = false,
              .has_constant_gradients = true,
              .takes_rates_of_sft = true};
    case Loss::dpo:
      return {.name = "dpo", .has_margins = true, .keys = "label_smoothing reference_free divergence"};
    case Loss::ipo: return {.name = "ipo", .keys = "length_normalize"};
    case Loss::hinge: return {.name = "hinge", .has_margins = true};
    case Loss::robust:
      return {.name = "robust",
              .has_margins = true,
              .keys = "label_smoothing",
              .preset = {"label_smoothing", "0.1"}};
    case Loss::exo_pair:
      return {.name = "exo_pair",
              .has_margins = true,
              .must_smooth = true,
              .keys = "label_smoothing",
              .preset = {"label_smoothing", "1e-3"}};
    case Loss::nca_pair: return {.name = "nca_pair"};
    case Loss::sppo_hard: return {.name = "sppo_hard", .beta = {1e-4, 0.1, "0.001", "0.001"}};  // 1 / its eta
    case Loss::apo_zero: return {.name = "apo_zero"};
    case Loss::apo_down: return {.name = "apo_down", .has_margins = true};
    case Loss::discopop: return {.name = "discopop", .has_margins = true, .keys = "temperature"};
    case Loss::bco_pair: return {.name = "bco_pair"};
    case Loss::sigmoid_norm: return {.name = "sigmoid_norm", .has_margins = true, .beta = kBetaPerToken};
    case Loss::aot: return {.name = "aot", .compares_batch = true, .keys = "label_smoothing"};
    case Loss::simpo:
      return {.name = "simpo",
              .has_reference = false,
              .has_margins = true,
              .keys = "gamma",
              .beta = kBetaPerToken};
    case Loss::cpo:
      return {.name = "cpo", .has_reference = false, .has_margins = true, .preset = {"alpha", "1.0"}};
    case Loss::orpo:  // SFT with a preference term
      return {.name = "orpo", .has_reference = false, .takes_rates_of_sft = true};
    case Loss::plackett_luce: return {.name = "plackett_luce", .examples = Ranking};
    case Loss::kto:
      return {.name = "kto",
              .examples = Unpaired,
              .needs_kl = true,
              .keys = "desirable_weight undesirable_weight"};
  }
  return {};
}

std::string name_of(Loss loss) { return facts_of(loss).name; }

bool uses_reference(const LossConfig& loss) {
  return facts_of(loss.name).has_reference && !loss.reference_free;
}

}  // namespace dpo::config
