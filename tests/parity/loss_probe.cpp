// Computes losses and their derivatives for numbers from a test.
//
//   loss_probe < REQUEST.json > ANSWER.json
//
// The request is a list of {"options": {"name", "beta", ...}, "scores": [[policy, reference, tokens]...],
// "comparisons": [{"responses": [numbers], "desirable"}...]}; the answer a list of {"losses", "gradients"}.
#include <iostream>

#include <nlohmann/json.hpp>

#include "loss/loss.h"

namespace {

using namespace dpo;
using nlohmann::json;

loss::Options read_options(const json& asked) {
  loss::Options o;
  o.name = config::find_choice<config::Loss>(asked.at("name").get<std::string>()).value();
  o.beta = asked.value("beta", 0.1);
  o.label_smoothing = asked.value("label_smoothing", o.label_smoothing);
  o.reference_free = asked.value("reference_free", o.reference_free);
  o.length_normalize = asked.value("length_normalize", o.length_normalize);
  o.divergence =
      config::find_choice<config::Divergence>(asked.value("divergence", name_of(o.divergence))).value();
  o.gamma = asked.value("gamma", o.gamma);
  o.alpha = asked.value("alpha", o.alpha);
  o.temperature = asked.value("temperature", 0.05);
  o.reward_shift = asked.value("reward_shift", o.reward_shift);
  o.kl = asked.value("kl", o.kl);
  o.desirable_weight = asked.value("desirable_weight", o.desirable_weight);
  o.undesirable_weight = asked.value("undesirable_weight", o.undesirable_weight);
  return o;
}

json answer(const json& request) {
  std::vector<loss::Score> scores;
  for (const json& score : request.at("scores")) scores.push_back({score.at(0), score.at(1), score.at(2)});
  std::vector<loss::Comparison> comparisons;
  for (const json& asked : request.at("comparisons")) {
    loss::Comparison comparison;
    comparison.responses = asked.at("responses").get<std::vector<std::int32_t>>();
    comparison.desirable = asked.value("desirable", true);
    comparisons.push_back(std::move(comparison));
  }
  const loss::LossAndGradients result =
      loss::evaluate(read_options(request.at("options")), scores, comparisons);
  return {{"losses", result.losses}, {"gradients", result.gradients}};
}

}  // namespace

int main() {
  try {
    json answers = json::array();
    for (const json& request : json::parse(std::cin)) answers.push_back(answer(request));
    std::cout << answers << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
