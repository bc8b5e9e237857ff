#include <initializer_list>

#include "config/schema_parts.h"

namespace dpo::config {
namespace {

std::vector<Loss> all_losses_but(std::initializer_list<Loss> others) {
  std::vector<Loss> losses = all_choices<Loss>();
  for (const Loss other : others) std::erase(losses, other);
  return losses;
}

}  // namespace

std::vector<Field> loss_fields() {
  using L = LossConfig;
  constexpr auto kLoss = &RunConfig::loss;
  const std::vector<Loss> preference = all_losses_but({Loss::sft});
  const auto weight = [](const char* key, double L::*member, const char* help) {
    return only_for({Loss::kto}, field(key, &RunConfig::loss, member, Effect::result, "1.0", above(0), help));
  };
  return {
      field("loss.name", kLoss, &L::name, Effect::result, "sft", one_of(all_choices<Loss>()),
            "The loss; choose it with loss=NAME."),
      only_for(preference,
               field("loss.beta", kLoss, &L::beta, Effect::result, "???", above(0),
                     "Strength of the preference term; with a reference, how closely the policy is kept to "
                     "it. 0.1 is usual for dpo; the plan knows the range of each loss.")),
      only_for(
          {Loss::dpo, Loss::robust, Loss::exo_pair, Loss::aot},
          field("loss.label_smoothing", kLoss, &L::label_smoothing, Effect::result, "0.0",
                from_to_below(0, 0.5), "Assumed share of pairs with swapped labels (conservative DPO).")),
      only_for({Loss::dpo}, field("loss.reference_free", kLoss, &L::reference_free, Effect::result, "false",
                                  yes_or_no(), "Use a uniform distribution as the reference.")),
      only_for({Loss::dpo}, field("loss.divergence", kLoss, &L::divergence, Effect::result, "reverse_kl",
                                  one_of(all_choices<Divergence>()),
                                  "Divergence from the reference that the rewards are derived from.")),
      only_for({Loss::ipo}, field("loss.length_normalize", kLoss, &L::length_normalize, Effect::result,
                                  "false", yes_or_no(), "Use log-probabilities per token instead of sums.")),
      only_for({Loss::simpo}, field("loss.gamma", kLoss, &L::gamma, Effect::result, "0.5", not_below(0),
                                    "Margin by which the chosen response should lead.")),
      only_for(
          all_losses_but({Loss::sft, Loss::kto}),
          field("loss.alpha", kLoss, &L::alpha, Effect::result, "0.0", not_below(0),
                "Weight of the chosen response's negative log-likelihood per token, added to the loss.")),
      only_for(all_losses_but({Loss::sft, Loss::kto, Loss::plackett_luce}),
               field("loss.length_alpha", kLoss, &L::length_alpha, Effect::result, "1.0", from_to(0, 1),
                     "Weight of the tokens by which the longer response exceeds the shorter one "
                     "(length-desensitised).")),
      only_for({Loss::discopop},
               field("loss.temperature", kLoss, &L::temperature, Effect::result, "0.05", above(0),
                     "Temperature of the blend of the loss's two parts; lower is sharper.")),
      weight("loss.desirable_weight", &L::desirable_weight, "Weight of desirable responses."),
      weight("loss.undesirable_weight", &L::undesirable_weight, "Weight of undesirable responses."),
  };
}

}  // namespace dpo::config
