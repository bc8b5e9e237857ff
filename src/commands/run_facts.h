// Collects the facts about a run that a model card or a report shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/compose.h"
#include "hub/cache.h"
#include "report/card.h"

namespace dpo::commands {

// Facts about a run that its configuration does not contain.
struct KeyFacts {
  std::int64_t examples = 0, updates = 0;  // of its checkpoint; 0: not shown
  std::string base_model = {};  // hub name of the initial model; "": the configuration's, if known to be on
                                // the hub
  std::string exp_name = {};    // for the command that repeats the run
};

// Reads config.yaml of a run, which may be another user's. It contains the values used, so ${oc.env:NAME} in
// it is text and does not read this process's environment.
config::Resolved read_run_config(const std::filesystem::path& run);

// Returns the commits in plan.json of a run: those of everything that it read from the hub.
hub::Commits commits_of(const std::filesystem::path& run);

// Returns the configuration that trackers show, a JSON object.
std::string tracked_config(const config::Resolved& resolved, const hub::Commits& commits);

// Reads config.yaml of a run. The result names no folder of this machine.
report::CardRun read_keys(const std::filesystem::path& run, const KeyFacts& given);

// Like read_keys, and also reads the evaluations up to a checkpoint and why it was chosen.
report::CardRun read_run(const std::filesystem::path& run, const std::filesystem::path& checkpoint,
                         const std::string& base_model, const std::string& exp_name,
                         std::vector<std::string>& notes);

// Names of what a run read from the hub, in the form of 'dpo fetch'. nullopt if unknown.
using HubNames = std::optional<std::set<std::string>>;

// Returns a path without its folders, which are specific to this machine. A checkpoint becomes RUN/LATEST. A
// name ORG/NAME might be a folder, so it is kept only if it is a built-in model or in `names`. If `names` is
// unknown, the Hugging Face cache decides.
std::string without_folders(const std::string& path, const HubNames& names = {});

}  // namespace dpo::commands
