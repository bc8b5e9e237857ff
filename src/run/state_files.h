// The texts of a checkpoint: how far the run is, and the marker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dpo::run {

// How far a run is, and what it must still be to go on from there.
struct RunState {
  std::int64_t updates = 0;
  std::int64_t examples = 0;
  double reward_sum = 0;  // of all responses that were trained on, and their number
  std::int64_t rewards = 0;
  std::optional<double> best{};                   // the best value of a metric so far
  std::string best_metric{};                      // of which
  std::int64_t evaluated = -1;                    // examples at the last evaluation
  std::map<std::string, std::string> identity{};  // what may not change: model, loss, data, seeds
};

std::string text_of(const RunState& progress);
// What is not such a text is a UserError that begins with `origin`.
RunState parse_run_state(std::string_view text, const std::string& origin);

struct MarkedFile {
  std::uint64_t size = 0;
  std::string sha256;  // in hexadecimal digits
};
// Every file of a checkpoint but the marker itself, by its name in the folder. Its text holds a hash of them,
// so that a damaged marker is not taken for a damaged file.
using Marker = std::map<std::string, MarkedFile>;

std::string text_of(const Marker& marker);
// The same, and every name is one of the folder.
Marker parse_marker(std::string_view text, const std::string& origin);

}  // namespace dpo::run
