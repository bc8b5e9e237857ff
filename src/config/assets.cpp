#include "config/assets.h"

#include <algorithm>

namespace dpo::config {

std::optional<std::string_view> asset(std::string_view path) {
  for (const auto& [name, text] : embedded_files())
    if (name == path) return text;
  return std::nullopt;
}

std::vector<std::string> assets_in(std::string_view folder) {
  std::vector<std::string> names;
  for (const auto& [name, text] : embedded_files()) {
    if (!name.starts_with(folder) || name.substr(folder.size(), 1) != "/") continue;
    const std::string_view rest = name.substr(folder.size() + 1);
    if (rest.find('/') == std::string_view::npos) names.emplace_back(rest.substr(0, rest.rfind('.')));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dpo::config
