#pragma once

#include <filesystem>

#include "report/metric_log.h"
#include "report/run_files.h"
#include "report/tail.h"

namespace dpo::report {

// A summary of a run's metrics.jsonl and log.txt. read() reads only the lines added since the last call.
class FollowedRun {
 public:
  explicit FollowedRun(const std::filesystem::path& folder);

  void read();
  // Also reads a last line without a line end, as a full disk leaves it. For files that are not read again.
  void read_all();

  const MetricLog& metrics() const { return metrics_; }
  const LogFacts& log() const { return log_; }
  const Tail& metrics_file() const { return metrics_file_; }  // knows where the next line begins

 private:
  MetricLog metrics_;
  LogFacts log_;
  Tail metrics_file_, log_file_;
};

}  // namespace dpo::report
