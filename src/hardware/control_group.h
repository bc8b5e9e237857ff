#pragma once

#include <filesystem>
#include <optional>

namespace dpo::hardware {

// What the control groups of this process allow it, of both versions; nothing: no limit.
struct Limits {
  std::optional<double> memory;  // bytes
  std::optional<double> used;    // of them; what the kernel keeps of files is not counted
  std::optional<double> cores;
};

Limits limits_of_control_groups(const std::filesystem::path& root);

}  // namespace dpo::hardware
