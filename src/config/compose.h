#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"

namespace dpo::config {

struct Node;  // an untyped value with its origin

struct Request {
  std::vector<std::string> overrides;                // in the form of the command line
  std::optional<std::filesystem::path> config_file;  // --config FILE
  std::vector<std::filesystem::path> config_dirs;    // --config-dir DIR, searched before the built-in presets
  std::vector<std::string> not_needed = {};          // required keys that this command does not need
  bool interpolates = true;  // false: keeps ${...} as text, because the file may be another user's
};

struct Resolved {
  RunConfig values;
  std::shared_ptr<const Node> tree;
  std::vector<std::string> notes;  // for the user, not errors (an added key that is not used)
};

// Composes presets, file and overrides and checks the result against the schema. Throws one UserError with
// every problem found.
Resolved compose(const Request& request);

// Returns a run with some keys changed ("gradient_accumulation_steps=1"), checked like in compose.
RunConfig with_overrides(const RunConfig& base, std::span<const std::string> overrides);

// Returns where a key's value came from: "default", "my.yaml:3", "command line", "environment variable X".
std::string origin_of(const Resolved& resolved, std::string_view key);

}  // namespace dpo::config
