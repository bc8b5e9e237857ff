#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/model_arguments.h"

namespace dpo::cli {

struct ScoreArguments {
  ModelArguments model;
  std::string file;
  std::string reference;  // a model; empty: no rewards
  double beta = 0.1;
  std::int64_t batch_tokens = 8192;
  std::optional<std::int64_t> max_length, max_prompt_length;
  std::string truncation = "keep_start";
  bool time = false;
};

void describe_score(CLI::App& command, ScoreArguments& arguments);

}  // namespace dpo::cli
