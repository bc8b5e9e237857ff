#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/config_files.h"

namespace dpo::config {

inline constexpr const char* kRunConfigFile = "config.yaml";  // file in the folder of a run

// Returns the configuration in a run's folder, which is the base for resume=RUN on the command line. Its text
// is kept literally: the folder may be another user's, and "${oc.env:...}" in it must not read the
// environment. `overwrite` and `resume` are removed, and also `local_run_dir` if the folder was moved.
// Returns nullopt for null and auto, and for a folder without a configuration. Throws a UserError if the
// folder does not exist.
std::optional<Document> configuration_of(const std::string& resume, const ConfigFiles& files);

// Throws a UserError unless resume=FOLDER names a folder.
void require_run_folder(const std::filesystem::path& folder);

}  // namespace dpo::config
