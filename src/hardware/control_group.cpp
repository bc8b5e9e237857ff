#include "hardware/control_group.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace dpo::hardware {
namespace {

namespace fs = std::filesystem;

// Mount point of a cgroup hierarchy, and the group that is mounted there.
struct Mount {
  fs::path at;
  std::string from;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& names, const std::string& name) {
  const auto all = split(names, ',');
  return std::ranges::find(all, name) != all.end();
}

// Finds the mount of a controller ("memory", "cpu"), or of cgroup version 2 for "". A line is "33 25 0:30
// FROM AT rw,relatime ... - TYPE device OPTIONS".
std::optional<Mount> find_mount(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const auto words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool wanted =
        controller.empty() ? dash[1] == "cgroup2" : dash[1] == "cgroup" && lists(dash[3], controller);
    if (wanted) return Mount{root / fs::path(words[4]).relative_path(), words[3]};
  }
  return std::nullopt;
}

// Returns this process's group, as "/a/b". A line is "4:memory:/a/b", or "0::/a/b" in version 2.
std::optional<std::string> find_group(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : lists(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// Returns the folders of this process's group and of its ancestors, whose limits apply to it too. In a
// container the mount may show only the part below its own group.
std::vector<fs::path> folders_of(const fs::path& root, const std::string& controller) {
  const auto mount = find_mount(root, controller);
  const auto group = find_group(root, controller);
  if (!mount || !group) return {};
  std::string below = *group;
  if (mount->from != "/" && below.starts_with(mount->from)) below.erase(0, mount->from.size());
  fs::path folder = mount->at;
  std::vector<fs::path> folders = {folder};
  for (const fs::path& part : fs::path(below).relative_path()) {
    folder /= part;
    std::error_code none;
    if (part != ".." && fs::is_directory(folder, none)) folders.push_back(folder);
  }
  return folders;
}

std::optional<double> number_in(const fs::path& file) {
  double value = 0;
  std::ifstream in(file);
  return in >> value ? std::optional(value) : std::nullopt;  // "max" means no limit
}

// Returns the value of a key in a file of lines such as "inactive_file 123" in memory.stat.
double counted_in(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  double value = 0;
  for (std::string name; in >> name >> value;)
    if (name == key) return value;
  return 0;
}

void take_memory(Limits& limits, const fs::path& folder, const char* limit, const char* usage,
                 const char* files) {
  const auto most = number_in(folder / limit);
  if (!most || (limits.memory && *limits.memory <= *most)) return;
  limits.memory = most;
  limits.used = number_in(folder / usage);
  if (limits.used) *limits.used = std::max(0.0, *limits.used - counted_in(folder / "memory.stat", files));
}

void take_cores(Limits& limits, std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;  // -1: no quota
  limits.cores = std::min(limits.cores.value_or(*quota / *period), *quota / *period);
}

}  // namespace

Limits limits_of_control_groups(const fs::path& root) {
  Limits limits;
  for (const fs::path& folder : folders_of(root, "")) {
    take_memory(limits, folder, "memory.max", "memory.current", "inactive_file");
    std::ifstream in(folder / "cpu.max");
    double quota = 0, period = 0;
    if (in >> quota >> period) take_cores(limits, quota, period);
  }
  for (const fs::path& folder : folders_of(root, "memory"))
    take_memory(limits, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  for (const fs::path& folder : folders_of(root, "cpu"))
    take_cores(limits, number_in(folder / "cpu.cfs_quota_us"), number_in(folder / "cpu.cfs_period_us"));
  return limits;
}

}  // namespace dpo::hardware
