// Paths as a user gives them.
#pragma once

#include <filesystem>
#include <string>

namespace dpo {

// A path that begins with ~/ (or is ~) begins with the home folder instead; the shell does that only for a
// word that begins so, not for key=~/x. Anything else is returned as it is.
std::string expand_home(const std::string& path);

// "; RUN is the folder of a run: try RUN/LATEST, its newest checkpoint" for a folder that 'dpo train' made,
// or nothing: the end of a message that a model, weights or a tokenizer are not in a folder.
std::string run_folder_hint(const std::filesystem::path& folder);

}  // namespace dpo
