// The JSON files of a checkpoint: the state of the run, and the marker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dpo::run {

// Values are compared only if they are of one metric over one set of examples.
struct Comparison {
  std::string metric{};
  std::string set{};  // see set_of; empty: not known, in older checkpoints

  bool operator==(const Comparison&) const = default;
};

// How far a run is, and what must be the same to resume it.
struct RunState {
  std::int64_t updates = 0;
  std::int64_t examples = 0;
  double reward_sum = 0;  // over all responses that were trained on, and their number
  std::int64_t rewards = 0;
  std::optional<double> best{};                   // the best value of a metric so far
  Comparison comparison{};                        // what it is the best of
  std::optional<std::int64_t> best_examples{};    // where it was found
  std::int64_t evaluated = -1;                    // examples at the last evaluation
  std::map<std::string, std::string> identity{};  // model, loss, data, seeds and more
};

std::string text_of(const RunState& run_state);
// Invalid or incomplete JSON is a UserError that begins with `origin`.
RunState parse_run_state(std::string_view text, const std::string& origin);

inline constexpr const char* kMarker = "COMPLETE";

struct MarkedFile {
  std::uint64_t size = 0;
  std::string sha256;  // in hexadecimal digits
};
// Every file of a checkpoint but the marker itself, by its path in the folder. The marker's text contains a
// hash of this list, so that a damaged marker is not taken for a damaged file.
using Marker = std::map<std::string, MarkedFile>;

std::string text_of(const Marker& marker);
// Invalid or incomplete JSON, or a path outside of the folder, is a UserError.
Marker parse_marker(std::string_view text, const std::string& origin);

}  // namespace dpo::run
