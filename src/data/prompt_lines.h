#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dpo::data {

// Calls `visit` for every line of a file (plain, gzip or zstd; "-" is stdin) that is not blank. `origin` is
// FILE:LINE.
void for_each_line(const std::string& file,
                   const std::function<void(const std::string& line, const std::string& origin)>& visit);

// A line of a file: a prompt and responses to it.
struct PromptLine {
  std::string prompt;
  std::vector<std::string> responses;
  std::string origin;  // FILE:LINE
};

// Lines {"prompt": P, "responses": [R, ...]} or {"prompt": P, "chosen": R, "rejected": R}; other keys are
// ignored. A line that is neither is a UserError.
std::vector<PromptLine> read_responses(const std::string& file);

// Lines {"prompt": P}, if the first is a JSON object; otherwise each line is a prompt.
std::vector<std::string> read_prompts(const std::string& file);

}  // namespace dpo::data
