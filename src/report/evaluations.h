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

// Whether an evaluation of pairs has only ties; see accuracy.h.
bool are_ties(const Evaluation& evaluation);

// The reward accuracy for people, with the number of examples that it is of; empty if there is none.
std::string accuracy_text(const Evaluation& evaluation);

enum class Answer { yes, unclear, no };

struct Learned {
  Answer answer = Answer::unclear;
  std::string sentence;  // "Not measurably: after 320 examples ..."

  std::string in_short() const { return sentence.substr(0, sentence.find(':')); }
};

// Whether a run learned, in one sentence with figures: by the reward accuracy on held-out examples, compared
// with chance or, without a reference, with the first evaluation; if there is no accuracy, by the held-out
// loss. `compared`: the examples with several responses; 0: all.
Learned what_was_learned(const MetricLog& log, std::int64_t compared = 0);

}  // namespace dpo::report
