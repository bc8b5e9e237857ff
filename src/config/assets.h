#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::config {

// The files of configs/, built into the program so that it works from any folder. Paths are relative to
// configs/: "model/pythia28.yaml".
std::optional<std::string_view> asset(std::string_view path);

// The names below a folder, sorted, without the extension: assets_in("model") holds "pythia28".
std::vector<std::string> assets_in(std::string_view folder);

}  // namespace dpo::config
