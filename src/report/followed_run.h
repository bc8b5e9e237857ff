#pragma once

#include <filesystem>

#include "report/metric_log.h"
#include "report/run_files.h"
#include "report/tail.h"

namespace dpo::report {

// What a run has written line by line, metrics.jsonl and log.txt, as far as it was read. Only what was added
// to the files since the last call is read.
class FollowedRun {
 public:
  explicit FollowedRun(const std::filesystem::path& folder);

  void read();

  const MetricLog& metrics() const { return metrics_; }
  const LogFacts& log() const { return log_; }
  const Tail& metrics_file() const { return metrics_file_; }  // where its next line begins

 private:
  MetricLog metrics_;
  LogFacts log_;
  Tail metrics_file_, log_file_;
};

}  // namespace dpo::report
