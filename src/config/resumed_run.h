#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/config_files.h"

namespace dpo::config {

inline constexpr const char* kRunConfigFile = "config.yaml";  // in the folder of a run

// The configuration in the folder of a run, to which resume=RUN on the command line is an addition. Its text
// stays as it is: the folder may be somebody else's, and "${oc.env:...}" in it must not read the environment.
// Without `overwrite` and `resume`, and without `local_run_dir` if the folder was moved. nullopt for null and
// auto, and for a folder without a configuration. Throws a UserError if there is no such folder.
std::optional<Document> configuration_of(const std::string& resume, const ConfigFiles& files);

// Throws a UserError unless resume=FOLDER names a folder.
void require_run_folder(const std::filesystem::path& folder);

}  // namespace dpo::config
