#include "hardware/processor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/parallel.h"
#include "hardware/control_group.h"

namespace dpo::hardware {
namespace {

namespace fs = std::filesystem;

// Facts from a file of "Key : value" lines: the first value of every key, and the number of "processor"
// lines.
struct Facts {
  std::map<std::string, std::string> first;
  int processors = 0;

  std::string of(const std::string& key) const {
    const auto found = first.find(key);
    return found == first.end() ? "" : found->second;
  }
};

Facts read_facts(const fs::path& file) {
  Facts facts;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const auto start = line.find_first_not_of(" \t", colon + 1);
    facts.first.emplace(key, start == std::string::npos ? "" : line.substr(start));
    if (key == "processor") ++facts.processors;
  }
  return facts;
}

// Returns the kernel's name of the processor. ARM has none, so there it is the numbers of implementer and
// part.
std::string name_in(const Facts& cpu) {
  if (const std::string name = cpu.of("model name"); !name.empty()) return name;
  const std::string maker = cpu.of("CPU implementer"), part = cpu.of("CPU part");
  return maker.empty() || part.empty() ? "" : "ARM " + maker + " " + part;
}

Bf16 bf16_in(const Facts& cpu) {
  std::istringstream flags(cpu.of("flags") + " " + cpu.of("Features"));  // x86, ARM
  Bf16 kind = Bf16::none;
  for (std::string flag; flags >> flag;) {
    if (flag == "amx_bf16") return Bf16::amx;
    if (flag == "avx512_bf16" || flag == "bf16") kind = Bf16::vector;
  }
  return kind;
}

double kib(const std::string& text) { return std::strtod(text.c_str(), nullptr) * 1024; }

}  // namespace

const char* name_of(Bf16 kind) {
  switch (kind) {
    case Bf16::none: return "none";
    case Bf16::vector: return "vector";
    case Bf16::amx: return "amx";
  }
  return "";
}

int Processor::threads() const { return std::max(1, static_cast<int>(std::ceil(cores))); }

Processor find_processor(const fs::path& root) {
  const Facts cpu = read_facts(root / "proc/cpuinfo");
  const Facts memory = read_facts(root / "proc/meminfo");
  const Limits limits = limits_of_control_groups(root);
  Processor found;
  found.name = name_in(cpu);
  found.bf16 = bf16_in(cpu);
  const int allowed = static_cast<int>(usable_cores());
  found.machine_cores = cpu.processors > 0 ? cpu.processors : allowed;
  found.machine_memory = kib(memory.of("MemTotal"));
  found.cores = std::min(allowed, found.machine_cores);
  if (limits.cores) found.cores = std::min(found.cores, *limits.cores);
  found.memory = std::min(found.machine_memory, limits.memory.value_or(found.machine_memory));
  found.available = std::min(kib(memory.of("MemAvailable")), found.memory);
  if (limits.memory && limits.used)
    found.available = std::min(found.available, std::max(0.0, *limits.memory - *limits.used));
  return found;
}

}  // namespace dpo::hardware
