#pragma once

#include <filesystem>

#include "plan/architecture.h"
#include "plan/inputs.h"

namespace dpo::plan {

// Reads everything that a plan of this run depends on: the model's sizes, the data's lengths, and, for a plan
// for this machine, its disk and memory. Resolves model.fsdp_policy_mp=auto. Downloads and writes nothing.
// `counted` has the lengths of the run's own data, if they were counted; plan.lengths overrides them. `known`
// has the model's sizes, if they are not to be looked up by its name.
Inputs gather_inputs(const config::RunConfig& run, const Machine& machine,
                     const std::optional<Lengths>& counted = {},
                     const std::optional<Architecture>& known = {});

// Returns the message about a model.archive that is a file, for a run that trains an adapter. The adapter
// needs a folder, since its own folder names the model's folder.
std::string file_under_adapter(const config::RunConfig& run);

// Returns the folder where runs and caches are kept: the first of local_dirs that exists, else the last.
std::string local_dir_of(const config::RunConfig& run);
// Returns the user's folder in it, LOCAL_DIR/USER. Users who share a LOCAL_DIR do not share caches.
std::filesystem::path folder_of_user(const config::RunConfig& run);

// Returns the folder in which a new run's folder is created: local_run_dir itself, or the user's folder.
std::filesystem::path folder_of_runs(const config::RunConfig& run);

}  // namespace dpo::plan
