#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dpo::config {

// The files of configs/, built into the program so that it works from any folder. Paths are relative to
// configs/: "model/pythia28.yaml".
std::optional<std::string_view> asset(std::string_view path);

// All of them, path and text; written by cmake/embed.cmake.
std::span<const std::pair<std::string_view, std::string_view>> embedded_files();

// The names below a folder, sorted, without the extension: assets_in("model") holds "pythia28".
std::vector<std::string> assets_in(std::string_view folder);

}  // namespace dpo::config
