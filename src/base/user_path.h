// Handles paths as users write them.
#pragma once

#include <filesystem>
#include <string>

namespace dpo {

// Links in a run's folder: to its newest checkpoint, and to the best one by best_metric.
inline constexpr const char* kLatest = "LATEST";
inline constexpr const char* kBest = "BEST";

// Expands ~ and ~/ at the start of a path to the home folder, which the shell does not do in key=~/x.
std::string expand_home(const std::string& path);

// Removes a trailing slash: "runs/out/" names the same folder as "runs/out".
std::filesystem::path without_slash(const std::filesystem::path& path);

// Returns the canonical path of an existing folder. A checkpoint RUN/step-N that is itself a link, because it
// was moved to another disk, remains RUN/step-N, so that its run is found.
std::filesystem::path canonical_in_run(const std::filesystem::path& folder);

// Returns "; RUN is the folder of a run: try RUN/LATEST, its newest checkpoint" for a folder of 'dpo train',
// else "". It ends a message that a folder contains no model, weights or tokenizer.
std::string run_folder_hint(const std::filesystem::path& folder);

}  // namespace dpo
