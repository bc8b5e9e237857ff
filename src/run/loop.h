#pragma once

#include <filesystem>

#include "run/folder.h"
#include "run/setup.h"

namespace dpo::run {

enum class Outcome { finished, stopped };

// The run from where it is to its end: updates, evaluations, samples, checkpoints. A signal ends it in order,
// after the update under way, with a checkpoint.
Outcome run_loop(Prepared& prepared, RunFolder& folder, const train::Listener& listener);

}  // namespace dpo::run
