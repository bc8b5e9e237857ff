#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/metric_log.h"
#include "report/run_files.h"

namespace dpo::report {

// What an example of an evaluation is judged by. Margin: the reward of the preferred response minus that of
// the other (in a ranking, of the last). Reward: of its only response, with the sign changed if that is
// labelled bad. Loss: SFT has no rewards.
enum class Score { margin, reward, loss };

Score score_of_evaluation(const std::vector<EvaluatedExample>& examples);

// The scores of all examples, in order; an example with one response has no margin.
std::vector<double> scores_of(const std::vector<EvaluatedExample>& examples, Score score);

// An example in the last evaluation of a run, and in the first if it was there.
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
  std::size_t wrong = 0;             // of them, with a score of 0 or less
  std::vector<Change> largest = {};  // changes, in either direction
  std::vector<Change> worst = {};  // those still wrong, the worst first; for a loss, the highest ones. Empty
                                   // if all scores are equal, as before the first update
};

// At most `most` examples in each list.
Changes compare(const std::vector<EvaluatedExample>& first, const std::vector<EvaluatedExample>& last,
                std::size_t most);

// A histogram of values as steps (Mark::steps): the share of them in each of `bins` equal bars between the
// two bounds.
std::vector<Point> histogram(const std::vector<double>& values, double low, double high, std::size_t bins);

}  // namespace dpo::report
