// The JSON files of a checkpoint: the run's state and the marker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dpo::run {

// Identifies what a best value refers to. Values are compared only if metric and example set are the same.
struct Comparison {
  std::string metric{};
  std::string set{};  // see set_of; empty if unknown (older checkpoints)

  bool operator==(const Comparison&) const = default;
};

// Progress of a run, and everything that must be the same to resume it.
struct RunState {
  std::int64_t updates = 0;
  std::int64_t examples = 0;
  double reward_sum = 0;  // over all `rewards` responses trained on
  std::int64_t rewards = 0;
  std::optional<double> best{};                   // best value of the metric so far
  Comparison comparison{};                        // metric and examples that `best` refers to
  std::optional<std::int64_t> best_examples{};    // examples at the best evaluation
  std::int64_t evaluated = -1;                    // examples at the last evaluation
  std::map<std::string, std::string> identity{};  // model, loss, data, seeds and more
};

std::string text_of(const RunState& run_state);
// Throws a UserError that begins with `origin` if the JSON is invalid or incomplete.
RunState parse_run_state(std::string_view text, const std::string& origin);

inline constexpr const char* kMarker = "COMPLETE";

struct MarkedFile {
  std::uint64_t size = 0;
  std::string sha256;  // in hexadecimal digits
};
// All files of a checkpoint except the marker, by path in the folder. The marker's text contains a hash of
// this list, so that a damaged marker is not mistaken for a damaged file.
using Marker = std::map<std::string, MarkedFile>;

std::string text_of(const Marker& marker);
// Throws a UserError if the JSON is invalid or incomplete, or a path is outside the folder.
Marker parse_marker(std::string_view text, const std::string& origin);

}  // namespace dpo::run
