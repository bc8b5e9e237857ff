// Applies the sampling options to logits, for the parity tests. stdin: {"logits": [[...]...], "seen":
// [[ids]...], "options": {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"}}; stdout: the
// logits, null where they are masked.
#include <cmath>
#include <iostream>

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include "model/sampling.h"

int main() {
  using namespace dpo::model;
  using nlohmann::json;
  const json request = json::parse(std::cin);
  const json& given = request.at("options");
  const SamplingOptions options{.temperature = given.value("temperature", 1.0),
                                .top_k = given.value("top_k", std::int64_t{0}),
                                .top_p = given.value("top_p", 1.0),
                                .min_p = given.value("min_p", 0.0),
                                .repetition_penalty = given.value("repetition_penalty", 1.0)};
  json answer = json::array();
  for (std::size_t row = 0; row < request.at("logits").size(); ++row) {
    at::Tensor logits = at::tensor(request["logits"][row].get<std::vector<float>>()).unsqueeze(0);
    at::Tensor seen = at::zeros(logits.sizes(), at::kBool);
    seen[0].index_fill_(0, at::tensor(request.at("seen")[row].get<std::vector<std::int64_t>>()), true);
    logits =
        filter_logits(penalize_repetition(logits, seen, options.repetition_penalty), options).contiguous();
    json& left = answer.emplace_back(json::array());
    for (std::int64_t i = 0; i < logits.numel(); ++i) {
      const float logit = logits.const_data_ptr<float>()[i];
      left.push_back(std::isinf(logit) ? json() : json(logit));
    }
  }
  std::cout << answer.dump() << "\n";
}
