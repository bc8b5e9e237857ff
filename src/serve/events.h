#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "report/tail.h"
#include "serve/runs.h"

namespace dpo::serve {

inline constexpr std::size_t kMostPoints = 1000;  // per metric, in the first event to a viewer

// Server-sent events for one viewer. "runs": the list, whenever it changes. "held-out": whether the chosen
// runs are evaluated on the same examples, whenever that changes. "points": new values of the chosen runs'
// metrics. A run's first event has at most kMostPoints points of each metric (means of neighbouring updates,
// or single evaluations); later events have every value.
class EventStream {
 public:
  EventStream(Runs& runs, const std::vector<Run>& chosen);

  // Returns the new events, or "". Reads only the bytes that were added to the files.
  std::string next();

 private:
  struct Source {
    std::string id;
    report::Tail tail;
    bool is_new = true;  // the viewer has no points yet
  };

  std::string next_list();
  std::string next_held_out();
  std::string next_points(Source& source);
  std::string all_points(Source& source);

  Runs& runs_;
  std::vector<Source> sources_;
  std::string last_list_, last_held_out_;
  std::chrono::steady_clock::time_point listed_{};
};

}  // namespace dpo::serve
