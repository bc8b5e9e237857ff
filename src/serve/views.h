#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "report/run_report.h"

namespace dpo::serve {

inline constexpr std::size_t kPageSize = 20;           // examples or samples at once
inline constexpr std::size_t kShownCharacters = 3000;  // of a text, unless all of it is asked for

// What a viewer looks for in an evaluation.
struct Question {
  std::optional<std::int64_t> step = {};  // none: the last
  std::string filter = {};                // a part of the texts
  std::string order = "worst";            // or best, changed, number
  std::size_t from = 0;                   // the first one shown
  std::optional<std::int64_t> only = {};  // this one alone, with its whole texts
};

// A run at a glance: what was learned, findings, settings, and whether its prompts were rendered by a chat
// template. `followed`: its files that grow.
nlohmann::json run_view(const report::RunSource& run, const report::FollowedRun& followed);

// Held-out examples of an evaluation with their scores, then and at the first evaluation, and their texts.
nlohmann::json examples_view(const std::filesystem::path& run, const Question& question);

// What policy and reference answered.
nlohmann::json samples_view(const std::filesystem::path& run, const Question& question);

}  // namespace dpo::serve
