#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/metric_log.h"

namespace dpo::report {

// Returns the evaluations of a run in the order of training, up to a checkpoint after `most` examples. If one
// was repeated, the last one counts.
std::vector<Evaluation> evaluations_of(const MetricLog& log,
                                       double most = std::numeric_limits<double>::infinity());

// How many examples the last evaluation had; 0: unknown.
std::int64_t evaluated_examples(const MetricLog& log);

// Before the first update policy and reference are the same model: its accuracy, 0, is no result.
bool all_rewards_are_0(const Evaluation& evaluation);

enum class Answer { yes, unclear, no };

struct Learned {
  Answer answer = Answer::unclear;
  std::string sentence;
};

// Whether a run learned, in one sentence with figures: by the reward accuracy on held-out examples, compared
// with chance or, without a reference, with the first evaluation; if there is no accuracy, by the held-out
// loss. `compared`: the examples with several responses; 0: all.
Learned what_was_learned(const MetricLog& log, std::int64_t compared = 0);

}  // namespace dpo::report
