# Writes OUTPUT, a C++ source file with the text of FILES (paths below FOLDER).
set(source [=[
// Written by embed.cmake from configs/.
#include "config/assets.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dpo::config {
namespace {

using namespace std::literals;

constexpr auto kAssets = std::to_array<std::pair<std::string_view, std::string_view>>({
]=])
foreach(file IN LISTS FILES)
  file(READ "${FOLDER}/${file}" text)
  string(APPEND source "    {\"${file}\"sv, R\"~~~~(${text})~~~~\"sv},\n")
endforeach()
string(APPEND source [=[
});

}  // namespace

std::optional<std::string_view> asset(std::string_view path) {
  for (const auto& [name, text] : kAssets)
    if (name == path) return text;
  return std::nullopt;
}

std::vector<std::string> assets_in(std::string_view folder) {
  std::vector<std::string> names;
  for (const auto& [name, text] : kAssets) {
    if (!name.starts_with(folder) || name.substr(folder.size(), 1) != "/") continue;
    const std::string_view rest = name.substr(folder.size() + 1);
    if (rest.find('/') == std::string_view::npos) names.emplace_back(rest.substr(0, rest.rfind('.')));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dpo::config
]=])
file(WRITE "${OUTPUT}" "${source}")
