#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/model_arguments.h"

namespace dpo::cli {

struct SampleArguments {
  ModelArguments model;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::int64_t max_new_tokens = 256;
  bool greedy = false;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t samples = 1;
  std::vector<std::string> stops;
  std::uint64_t seed = 0;
  std::int64_t batch = 32;
  bool special = false;
  bool json = false;
  bool time = false;
};

void describe_sample(CLI::App& command, SampleArguments& arguments);

}  // namespace dpo::cli
