#pragma once

#include <chrono>

#include "commands/progress.h"
#include "hub/client.h"
#include "plan/plan.h"
#include "run/start.h"
#include "train/events.h"

namespace dpo::engine {

struct DisplayOptions {
  bool quiet = false;     // prints only warnings
  bool verbose = false;   // prints the whole plan
  bool json_log = false;  // prints events on stdout
  bool banner = true;
  std::chrono::seconds between_lines{0};  // least time between updates in a pipe
};

// Shows a run on stderr. A terminal shows the last update as a live line below all others; a pipe gets a line
// for each logged update. With json_log, a JSON object for each event is also printed on stdout.
class RunDisplay {
 public:
  explicit RunDisplay(const DisplayOptions& options) : options_(options) {}

  // Prints the banner and the plan's warnings, or the whole plan if it fails.
  void show_plan(const plan::Plan& plan, const plan::Inputs& in, const run::Start& start) const;

  // The returned listeners hold a reference to this display.
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
