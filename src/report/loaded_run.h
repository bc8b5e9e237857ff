#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/evaluations.h"
#include "report/followed_run.h"
#include "report/page.h"
#include "report/run_files.h"
#include "report/run_report.h"

namespace dpo::report {

// The data of a run from which the parts of a report are made.
struct LoadedRun {
  // `followed` has the metrics and the log of the same run, already read. Throws UserError if the run has no
  // metrics.
  LoadedRun(const RunSource& run, const FollowedRun& followed);

  const RunSource& source;
  const MetricLog& log;
  std::vector<Evaluation> evaluations;
  const LogFacts& said;
  nlohmann::json plan, environment;

  std::int64_t last_counter(const std::string& name) const;  // 0 if unknown

  // Return the N of all step-N.jsonl in eval/, and in samples/, in order. A resumed run may still have files
  // of evaluations that it has not repeated yet, which are left out. The first samples may be of the first
  // update, which has no evaluation.
  std::vector<std::int64_t> evaluated_steps() const;
  std::vector<std::int64_t> sampled_steps() const;
};

inline constexpr std::size_t kTrainPoints = 300, kEvalPoints = 200;  // per curve, at most
inline constexpr std::size_t kFindings = 30;
inline constexpr std::size_t kTextCharacters = 2000;   // of a prompt, a response or a finding, at most
inline constexpr std::size_t kSummaryCharacters = 90;  // of a prompt that is shown on one line

std::string status_of(const LoadedRun& run);                 // "finished", "failed: ..."
std::vector<std::string> findings_of(const LoadedRun& run);  // from the report, the plan and the log
void add_list_of(Page& page, const std::vector<std::string>& findings);  // at most kFindings

Learned what_was_learned(const LoadedRun& run);

// Returns a metric as a curve: means for training, single values for evaluations.
Curve train_curve(const LoadedRun& run, const std::string& name, const std::string& metric);
Curve eval_curve(const LoadedRun& run, const std::string& name, const std::string& metric);

// Adds a chart if any of its curves has points.
void add_chart(std::vector<Chart>& charts, const std::string& title, std::vector<Curve> curves);

// These add parts of a report: the distribution of scores, examples, samples. They are in parts_of_run.cpp.
void add_distribution(Page& page, const LoadedRun& run);
void add_examples(Page& page, const LoadedRun& run);
void add_samples(Page& page, const LoadedRun& run);

}  // namespace dpo::report
