#include "report/followed_run.h"

namespace dpo::report {
namespace {

// Adds the new lines of a file to `known`. Starts again if the file was replaced.
template <class Known, class Add>
void follow(Tail& file, Known& known, Add add) {
  for (bool more = true; more;) {
    const Tail::Part part = file.next();
    if (part.restarted) known = {};
    for (const std::string& line : part.lines) add(known, line);
    more = part.more;
  }
}

}  // namespace

FollowedRun::FollowedRun(const std::filesystem::path& folder)
    : metrics_file_(folder / "metrics.jsonl"), log_file_(folder / "log.txt") {}

void FollowedRun::read() {
  follow(metrics_file_, metrics_,
         [](MetricLog& metrics, const std::string& line) { metrics.add_line(line); });
  follow(log_file_, log_, [](LogFacts& log, const std::string& line) { add_log_line(log, line); });
}

void FollowedRun::read_all() {
  read();
  metrics_.add_line(metrics_file_.last_line());
  add_log_line(log_, log_file_.last_line());
}

}  // namespace dpo::report
