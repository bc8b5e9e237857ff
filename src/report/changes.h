#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/metric_log.h"
#include "report/run_files.h"

namespace dpo::report {

// The value by which an example of an evaluation is judged. margin: the reward of the preferred response
// minus that of the other (of the last one in a ranking). reward: that of the only response, with the sign
// changed if it is labelled bad. loss: for SFT, which has no rewards.
enum class Score { margin, reward, loss };

Score score_of_evaluation(const std::vector<EvaluatedExample>& examples);

// Returns the score of an example, or nullopt for the margin of an example with one response.
std::optional<double> score_of(const EvaluatedExample& example, Score score);

// Returns the scores of all examples that have one, in order.
std::vector<double> scores_of(const std::vector<EvaluatedExample>& examples, Score score);

// The score of an example in the last evaluation of a run, and in the first one if the example was in it.
struct Change {
  std::int64_t example = 0;
  bool desirable = true;
  double now = 0;
  std::optional<double> before = {};

  double size() const { return before ? now - *before : 0; }
};

struct Changes {
  Score score = Score::margin;
  std::size_t examples = 0;          // in the last evaluation, with a score
  std::size_t wrong = 0;             // those with a score of 0 or less
  std::vector<Change> largest = {};  // in either direction
  std::vector<Change> worst = {};  // those still wrong, the worst first; for a loss, the highest ones. Empty
                                   // if all scores are equal, as before the first update
};

// Returns at most `most` examples in each list.
Changes compare(const std::vector<EvaluatedExample>& first, const std::vector<EvaluatedExample>& last,
                std::size_t most);

// Returns a histogram as steps (Mark::steps): the share of the values in each of `bins` equal bars between
// the two bounds.
std::vector<Point> histogram(const std::vector<double>& values, double low, double high, std::size_t bins);

}  // namespace dpo::report
