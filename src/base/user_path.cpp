#include "base/user_path.h"

#include <cstdlib>

#include <fmt/format.h>

namespace dpo {

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* const home = std::getenv("HOME");
  return home && *home ? home + path.substr(1) : path;
}

std::string run_folder_hint(const std::filesystem::path& folder) {
  if (folder.empty()) return "";
  std::error_code none;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, none); };
  if (has(kLatest))
    return fmt::format("; {} is the folder of a run: try {}, its newest checkpoint", folder.string(),
                       (folder / kLatest).string());
  if (has("metrics.jsonl") && has("plan.json"))
    return fmt::format("; {} is the folder of a run that has no checkpoint yet", folder.string());
  return "";
}

}  // namespace dpo
