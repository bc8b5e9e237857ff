// Declares the events, progress and failures that training reports to its caller, and how it stops on a
// signal.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "shard/mesh.h"

namespace dpo::train {

// Something that happens in a run.
struct Event {
  enum class Kind { start, update, evaluation, checkpoint, warning, message, end };

  Kind kind = Kind::message;
  std::string line{};  // for people and log.txt; an update without one is not logged
  std::vector<std::pair<std::string, double>> numbers{};  // `numbers` and `texts` are for programs
  std::vector<std::pair<std::string, std::string>> texts{};
};

// Returns a line as an event: a warning if the line begins like one.
inline Event message_event(const std::string& line) {
  return {.kind = line.starts_with("warning: ") ? Event::Kind::warning : Event::Kind::message, .line = line};
}

// Receives events and progress while a run is prepared and trains.
struct Listener {
  std::function<void(const Event& event)> report;
  // Reports progress. `unit` is what is counted, such as batches or bytes.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit)>
      progress;

  void say(const std::string& line) const { report(message_event(line)); }
  void warn(const std::string& text) const {
    report({.kind = Event::Kind::warning, .line = "warning: " + text});
  }
};

// Thrown if training cannot continue. The message says where and why. Exit status 2.
class TrainingFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown if all ranks stopped on a signal before the first update. The message says during what. Exit status
// 143.
class StoppedEarly : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Starts to count the ranks that a signal has asked to stop. A collective call.
inline shard::PendingSums stop_requests(const shard::Mesh& mesh) {
  return {*mesh.all, {stop_requested() ? 1.0 : 0.0}, mesh.device};
}

// True if a signal asked any rank to stop. This is a collective call, so that all ranks agree.
inline bool any_rank_asked_to_stop(const shard::Mesh& mesh) { return stop_requests(mesh).get().front() > 0; }

}  // namespace dpo::train
