// What a model card says about the run that trained the model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/card.h"

namespace dpo::commands {

// Reads config.yaml and metrics.jsonl of a run, as far as its checkpoint. Nothing in it names a folder of
// this machine. `base_model`: the name on the hub of the model that the run started from; empty: as the
// configuration names it, if the Hugging Face cache has that. `exp_name`: for the command that repeats it.
report::CardRun read_run(const std::filesystem::path& run, const std::filesystem::path& checkpoint,
                         const std::string& base_model, const std::string& exp_name,
                         std::vector<std::string>& notes);

// A path without its folders, which are about this machine; a checkpoint is shown as RUN/LATEST. A name on
// the hub, ORG/NAME, stays as it is if it is built in or in the Hugging Face cache: else it may be a folder.
std::string without_folders(const std::string& path);

}  // namespace dpo::commands
