#pragma once

#include <memory>
#include <span>

#include "track/trackers.h"

namespace dpo::track {

// Opens RUN/tensorboard: an event file with scalars, the configuration and samples as text, and histograms.
std::unique_ptr<Tracker> open_tensorboard(const Settings& settings, const History& history);

}  // namespace dpo::track
