#pragma once

#include <filesystem>

#include "train/run_folder.h"
#include "train/setup.h"

namespace dpo::train {

enum class Outcome { finished, stopped };

// The run from where it is to its end: updates, evaluations, samples, checkpoints. A signal ends it in order,
// after the update under way, with a checkpoint.
Outcome run(Prepared& prepared, RunFolder& folder, const Listener& listener);

}  // namespace dpo::train
