#pragma once

#include <filesystem>
#include <optional>

namespace dpo::hardware {

// The limits of this process's control groups (cgroups), of both versions; nullopt: no limit.
struct Limits {
  std::optional<double> memory;  // bytes
  std::optional<double> used;    // of it, without the page cache that the kernel can drop
  std::optional<double> cores;
};

Limits limits_of_control_groups(const std::filesystem::path& root);

}  // namespace dpo::hardware
