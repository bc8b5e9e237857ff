#include "base/nearest.h"
#include "config/losses.h"
#include "config/schema_parts.h"

namespace dpo::config {
namespace {

// Restricts a key to the losses for whose facts `condition` is true.
template <class Condition>
Field if_loss(Condition condition, Field field) {
  for (const Loss loss : all_choices<Loss>())
    if (condition(facts_of(loss))) field.losses.push_back(loss);
  return field;
}

// Restricts a key to the losses whose facts name it.
Field own(Field field) {
  const std::string name = split_path(field.key).back();
  return if_loss([&name](const LossFacts& facts) { return has_word(facts.keys, name); }, std::move(field));
}

bool is_preference(const LossFacts& facts) { return facts.is_preference(); }
bool is_pair(const LossFacts& facts) { return facts.examples == ExampleKind::Pair; }
bool is_pair_or_ranking(const LossFacts& facts) {
  return is_pair(facts) || facts.examples == ExampleKind::Ranking;
}

}  // namespace

std::vector<Field> loss_fields() {
  using L = LossConfig;
  const auto loss = [](const char* key, auto L::*member, const char* default_text, const auto& check,
                       const char* help) {
    return field(key, &RunConfig::loss, member, Effect::result, default_text, check, help);
  };
  return {
      loss("loss.name", &L::name, "sft", one_of(all_choices<Loss>()), "The loss; choose it with loss=NAME."),
      if_loss(is_preference,
              loss("loss.beta", &L::beta, "???", above(0),
                   "Strength of the preference term; with a reference, how closely the policy is kept to it. "
                   "0.1 is usual for dpo; the plan knows the range of each loss.")),
      own(loss("loss.label_smoothing", &L::label_smoothing, "0.0", from_to_below(0, 0.5),
               "Assumed share of pairs with swapped labels (conservative DPO).")),
      own(loss("loss.reference_free", &L::reference_free, "false", yes_or_no(),
               "Use a uniform distribution as the reference.")),
      own(loss("loss.divergence", &L::divergence, "reverse_kl", one_of(all_choices<Divergence>()),
               "Divergence from the reference that the rewards are derived from.")),
      own(loss("loss.length_normalize", &L::length_normalize, "false", yes_or_no(),
               "Use log-probabilities per token instead of sums.")),
      own(loss("loss.gamma", &L::gamma, "0.5", not_below(0),
               "Margin by which the chosen response should lead.")),
      if_loss(is_pair_or_ranking,
              loss("loss.alpha", &L::alpha, "0.0", not_below(0),
                   "Weight of the chosen response's negative log-likelihood per token, added to the loss.")),
      if_loss(is_pair, loss("loss.length_alpha", &L::length_alpha, "1.0", from_to(0, 1),
                            "Weight of the tokens by which the longer response exceeds the shorter one "
                            "(length-desensitised).")),
      own(loss("loss.temperature", &L::temperature, "0.05", above(0),
               "Temperature of the blend of the loss's two parts; lower is sharper.")),
      own(loss("loss.desirable_weight", &L::desirable_weight, "1.0", above(0),
               "Weight of desirable responses.")),
      own(loss("loss.undesirable_weight", &L::undesirable_weight, "1.0", above(0),
               "Weight of undesirable responses.")),
  };
}

}  // namespace dpo::config
