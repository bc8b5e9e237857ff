#pragma once

#include <chrono>

#include "commands/progress.h"
#include "hub/client.h"
#include "plan/plan.h"
#include "run/start.h"
#include "train/events.h"

namespace dpo::engine {

struct DisplayOptions {
  bool quiet = false;     // only warnings
  bool verbose = false;   // the whole plan
  bool json_log = false;  // events on stdout
  bool banner = true;
  std::chrono::seconds between_lines{0};  // of updates, in a pipe
};

// Shows a run on stderr: on a terminal the last update as a live line below all other lines, else a line for
// each logged update. With json_log also on stdout, a JSON object for each event.
class RunDisplay {
 public:
  explicit RunDisplay(const DisplayOptions& options) : options_(options) {}

  // The banner and the plan's warnings; all of a plan that fails.
  void show_plan(const plan::Plan& plan, const plan::Inputs& in, const run::Start& start) const;

  // These refer to the display.
  train::Listener listener();
  hub::Listener downloads() const;

 private:
  using Clock = std::chrono::steady_clock;

  void report(const train::Event& event);
  void show_update(const train::Event& event);

  const DisplayOptions options_;
  commands::ProgressLine progress_;
  Clock::time_point update_printed_ = Clock::now();
};

}  // namespace dpo::engine
