#include "base/user_path.h"

#include <cstdlib>

#include <fmt/format.h>

namespace dpo {

namespace fs = std::filesystem;

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* const home = std::getenv("HOME");
  return home && *home ? home + path.substr(1) : path;
}

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

fs::path canonical_in_run(const fs::path& folder) {
  constexpr int kMostLinks = 40;  // the limit of Linux
  const auto is_checkpoint = [](const fs::path& path) {
    return path.filename().string().starts_with("step-");
  };
  fs::path place = without_slash(fs::absolute(folder));
  for (int i = 0; i < kMostLinks && !is_checkpoint(place) && fs::is_symlink(place); ++i)
    place = without_slash(place.parent_path() / fs::read_symlink(place));
  return is_checkpoint(place) ? fs::canonical(place.parent_path()) / place.filename() : fs::canonical(folder);
}

std::string run_folder_hint(const fs::path& folder) {
  if (folder.empty()) return "";
  std::error_code none;
  const auto has = [&](const char* name) { return fs::exists(folder / name, none); };
  if (has(kLatest))
    return fmt::format("; {} is the folder of a run: try {}, its newest checkpoint", folder.string(),
                       (folder / kLatest).string());
  if (has("metrics.jsonl") && has("plan.json"))
    return fmt::format("; {} is the folder of a run that has no checkpoint yet", folder.string());
  return "";
}

}  // namespace dpo
