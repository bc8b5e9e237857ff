#pragma once

#include "run/folder.h"
#include "run/setup.h"

namespace dpo::run {

enum class Outcome { finished, stopped };

// Runs to the end: updates, evaluations, samples, checkpoints. A signal stops it after the current update,
// with a checkpoint.
Outcome run_loop(PreparedRun& run, RunFolder& folder, const train::Listener& listener);

}  // namespace dpo::run
