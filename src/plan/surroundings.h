#pragma once

#include <filesystem>

#include "plan/inputs.h"

namespace dpo::plan {

// Reads everything that a plan of this run depends on: the model's sizes, the data's lengths, and, when it is
// planned for this machine, its disk; decides what a key leaves to the device (model.fsdp_policy_mp=auto).
// Only reads; downloads nothing. `counted`: the lengths of the run's own data, where somebody has looked at
// it; plan.lengths comes before them.
Inputs gather_inputs(const config::RunConfig& run, const Machine& machine,
                     const std::optional<Lengths>& counted = {});

// The folder where runs and caches are kept: the first of local_dirs that exists, else the last.
std::string local_dir_of(const config::RunConfig& run);
// Where runs and caches of this user are: LOCAL_DIR/USER. Users who share a LOCAL_DIR do not share caches.
std::filesystem::path folder_of_user(const config::RunConfig& run);

// Where a new run's folder is made: local_run_dir itself, or the user's folder in that one.
std::filesystem::path folder_of_runs(const config::RunConfig& run);

}  // namespace dpo::plan
