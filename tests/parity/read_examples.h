// Reads the examples of a test's request, in tokens.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/example.h"

namespace dpo {

// Reads lists of {"prompt": [ids], "responses": [[ids]...]}. Optional keys: "weight", "margin", "tail_weight"
// (for the tokens by which the longer responses exceed the shortest), "unscored" (ranges [begin, end] of each
// response) and "desirable". Owns the data that the examples view.
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
      example.desirable = item.value("desirable", example.desirable);
      for (const nlohmann::json& ranges : item.value("unscored", nlohmann::json::array())) {
        std::vector<data::TokenRange>& kept = ranges_.emplace_back();
        for (const nlohmann::json& range : ranges) kept.push_back({range.at(0), range.at(1)});
        example.unscored.push_back(kept);
      }
      examples.push_back(std::move(example));
    }
    return examples;
  }

 private:
  std::span<const data::Token> keep(const nlohmann::json& ids) {
    return texts_.emplace_back(ids.get<std::vector<data::Token>>());
  }

  std::deque<std::vector<data::Token>> texts_;
  std::deque<std::vector<data::TokenRange>> ranges_;
};

}  // namespace dpo
