// Examples of a test's request, in tokens.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/example.h"

namespace dpo {

// Reads lists of {"prompt": [ids], "responses": [[ids]...]}, with "weight", "margin" and "tail_weight" (of
// the tokens that the longer responses have more) where they are given, and keeps the tokens that examples
// view.
class ExampleReader {
 public:
  std::vector<data::Example> read(const nlohmann::json& list) {
    std::vector<data::Example> examples;
    for (const nlohmann::json& item : list) {
      data::Example example;
      example.prompt = keep(item.at("prompt"));
      for (const nlohmann::json& ids : item.at("responses")) {
        example.responses.push_back(keep(ids));
        example.full_tokens = std::min(example.full_tokens, ids.size());
      }
      example.weight = item.value("weight", example.weight);
      example.margin = item.value("margin", example.margin);
      example.tail_weight = item.value("tail_weight", example.tail_weight);
      examples.push_back(std::move(example));
    }
    return examples;
  }

 private:
  std::span<const data::Token> keep(const nlohmann::json& ids) {
    return texts_.emplace_back(ids.get<std::vector<data::Token>>());
  }

  std::deque<std::vector<data::Token>> texts_;
};

}  // namespace dpo
