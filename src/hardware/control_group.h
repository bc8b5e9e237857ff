#pragma once

#include <filesystem>
#include <optional>

namespace dpo::hardware {

// Limits of this process's control groups (cgroups), versions 1 and 2. nullopt: no limit.
struct Limits {
  std::optional<double> memory;  // bytes
  std::optional<double> used;    // part of it in use, without the page cache that the kernel can drop
  std::optional<double> cores;
};

Limits limits_of_control_groups(const std::filesystem::path& root);

}  // namespace dpo::hardware
