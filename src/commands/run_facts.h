// What a model card or a report says about a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/compose.h"
#include "report/card.h"

namespace dpo::commands {

// What is known about a run besides its configuration.
struct KeyFacts {
  std::int64_t examples = 0, updates = 0;  // of its checkpoint; 0: they are not shown
  std::string base_model = {};  // the name on the hub of the model that the run started from; empty: as the
                                // configuration names it, if that is known to be on the hub
  std::string exp_name = {};    // for the command that repeats it
};

// Reads config.yaml of a run, which may be somebody else's: it has the values that were used, so a
// ${oc.env:NAME} in it is text, and says nothing about the environment of this process.
config::Resolved read_run_config(const std::filesystem::path& run);

// Reads config.yaml of a run. Nothing in the result names a folder of this machine.
report::CardRun read_keys(const std::filesystem::path& run, const KeyFacts& given);

// The same, with the evaluations up to a checkpoint and what chose it.
report::CardRun read_run(const std::filesystem::path& run, const std::filesystem::path& checkpoint,
                         const std::string& base_model, const std::string& exp_name,
                         std::vector<std::string>& notes);

// What a run read from the hub, by the names that 'dpo fetch' takes. nullopt: not known.
using HubNames = std::optional<std::set<std::string>>;

// A path without its folders, which are about this machine; a checkpoint is shown as RUN/LATEST. A name on
// the hub, ORG/NAME, stays as it is if it is built in or one of `names` (if they are not known, in the
// Hugging Face cache): else it may be a folder.
std::string without_folders(const std::string& path, const HubNames& names = {});

}  // namespace dpo::commands
