#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/metric_log.h"

namespace dpo::report {

// Returns the evaluations of a run in the order of training, up to a checkpoint after `most` examples. If an
// evaluation was repeated, the last one counts.
std::vector<Evaluation> evaluations_of(const MetricLog& log,
                                       double most = std::numeric_limits<double>::infinity());

// Returns the number of examples of the last evaluation, or 0 if unknown.
std::int64_t evaluated_examples(const MetricLog& log);

// Returns true if an evaluation of pairs has only ties; see accuracy.h.
bool are_ties(const Evaluation& evaluation);

// Returns the reward accuracy for display, with its number of examples, or "" if there is none.
std::string accuracy_text(const Evaluation& evaluation);

enum class Answer { yes, unclear, no };

struct Learned {
  Answer answer = Answer::unclear;
  std::string sentence;  // "Not measurably: after 320 examples ..."

  std::string in_short() const { return sentence.substr(0, sentence.find(':')); }
};

// Tells whether a run learned, in one sentence with figures. The reward accuracy on held-out examples is
// compared with chance or, without a reference, with the first evaluation. Without an accuracy, the held-out
// loss decides. `compared` is the number of examples with several responses; 0: all.
Learned what_was_learned(const MetricLog& log, std::int64_t compared = 0);

}  // namespace dpo::report
