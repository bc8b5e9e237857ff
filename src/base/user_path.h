// Paths as a user gives them.
#pragma once

#include <filesystem>
#include <string>

namespace dpo {

// Links in the folder of a run: to its newest checkpoint, and to the best by best_metric.
inline constexpr const char* kLatest = "LATEST";
inline constexpr const char* kBest = "BEST";

// Expands ~ and ~/ at the beginning of a path to the home folder, which the shell does not do in key=~/x.
std::string expand_home(const std::string& path);

// "runs/out/" names the same folder as "runs/out".
std::filesystem::path without_slash(const std::filesystem::path& path);

// The canonical path of a folder that exists. A checkpoint RUN/step-N that is itself a link, since it was
// moved to another disk, stays RUN/step-N: its run is here.
std::filesystem::path canonical_in_run(const std::filesystem::path& folder);

// "; RUN is the folder of a run: try RUN/LATEST, its newest checkpoint" for a folder of 'dpo train', else
// nothing: the end of a message that a folder holds no model, weights or tokenizer.
std::string run_folder_hint(const std::filesystem::path& folder);

}  // namespace dpo
