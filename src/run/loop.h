// Runs training from prepared models and data to the last checkpoint. This folder also contains the run's
// folder, its log, metrics and checkpoints, and how a run starts or resumes.
#pragma once

#include "run/folder.h"
#include "run/setup.h"

namespace dpo::run {

enum class Outcome { finished, stopped };

// Runs all updates, evaluations, samples and checkpoints. After a signal it finishes the current update,
// saves a checkpoint and returns `stopped`.
Outcome run_loop(PreparedRun& run, RunFolder& folder, const train::Listener& listener);

}  // namespace dpo::run
