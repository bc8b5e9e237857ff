#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "report/metric_log.h"
#include "serve/runs.h"
#include "serve/tail.h"

namespace dpo::serve {

inline constexpr std::size_t kMostPoints = 1000;  // of a metric, that a viewer gets at first

// What a viewer is sent while runs continue, as server-sent events: "runs", the list, whenever it changes;
// "points", new values of the chosen runs' metrics. At first the means of at most kMostPoints groups, then
// every value.
class EventStream {
 public:
  EventStream(Runs& runs, const std::vector<Run>& chosen);

  // What is new, perhaps nothing. Reads only what was added to the files.
  std::string next();

 private:
  struct Source {
    std::string id;
    Tail tail;
    bool is_new = true;
  };

  Runs& runs_;
  std::vector<Source> sources_;
  std::string last_list_;
  std::chrono::steady_clock::time_point listed_{};
};

}  // namespace dpo::serve
