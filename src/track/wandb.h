#pragma once

#include <memory>
#include <span>

#include "track/trackers.h"

namespace dpo::track {

// Opens RUN/wandb/offline-run-TIME-ID: an offline run of Weights & Biases, which 'wandb sync' uploads.
std::unique_ptr<Tracker> open_wandb(const Settings& settings, const History& history);

}  // namespace dpo::track
