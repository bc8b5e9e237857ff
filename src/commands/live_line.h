#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dpo::commands {

// The last update of a run. NaN means unknown, or that the loss has no such value.
struct LiveUpdate {
  std::int64_t update = 0, updates = 0;
  double loss = NAN, accuracy = NAN, margin = NAN, gradient_norm = NAN, learning_rate = NAN;
  double examples_per_second = NAN, seconds_left = NAN;
};

// Formats an update: "update 36 of 400 [==      ]   9 %  loss 0.6931  accuracy 0.812  ...  57 s left". A
// narrow terminal gets fewer parts and short forms.
std::string live_line(const LiveUpdate& last, std::size_t columns);

}  // namespace dpo::commands
