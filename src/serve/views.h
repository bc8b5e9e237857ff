#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "report/run_report.h"

namespace dpo::serve {

inline constexpr std::size_t kPageSize = 20;           // examples or samples per page
inline constexpr std::size_t kShownCharacters = 3000;  // of a text, unless the whole text is requested

// A viewer's query about an evaluation.
struct Question {
  std::optional<std::int64_t> step = {};  // nullopt: the last step
  std::string filter = {};                // text that must occur in the example
  std::string order = "worst";            // or best, changed, number
  std::size_t from = 0;                   // index of the first one shown
  std::optional<std::int64_t> only = {};  // show only this example, with its whole texts
};

// Returns an overview of a run: what was learned, findings, settings, and whether its prompts were rendered
// by a chat template. `followed` has its metrics and log.
nlohmann::json run_view(const report::RunSource& run, const report::FollowedRun& followed);

// Returns held-out examples with their texts, and their scores at that step and at the first evaluation.
nlohmann::json examples_view(const std::filesystem::path& run, const Question& question);

// Returns the samples of policy and reference.
nlohmann::json samples_view(const std::filesystem::path& run, const Question& question);

}  // namespace dpo::serve
