#include "plan/device.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/user_path.h"
#include "config/assets.h"
#include "plan/fact_file.h"
#include "plan/units.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

// The driver calls it "NVIDIA H200", older ones "H200".
std::string without_maker(const std::string& name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  return name.starts_with(kMaker) ? name.substr(kMaker.size()) : name;
}

bool names(FactFile& file, const std::string& device) {
  return std::ranges::any_of(file.texts("matches"), [&](const std::string& name) {
    return without_maker(name) == without_maker(device);
  });
}

// Products of one name differ: in memory (A100), and in how much of the chip is in use (laptops, MIG).
bool describes(FactFile& file, const hardware::Gpu& gpu) {
  if (!names(file, gpu.name)) return false;
  const auto multiprocessors = file.optional_number("multiprocessors", 1);
  if (multiprocessors && *multiprocessors != gpu.multiprocessors) return false;
  const auto memory = file.optional_number("memory_gib", 0.01);
  constexpr double kTolerance = 0.1;  // of the driver's own share, and GB called GiB
  const double gib = static_cast<double>(gpu.memory_bytes) / kGib;
  return !memory || std::abs(*memory - gib) < kTolerance * gib;
}

bool describes(FactFile& file, const hardware::Processor& processor) {
  return file.flag("per_core", false) && !processor.name.empty() && names(file, processor.name);
}

// The user's own files, sorted.
std::vector<std::string> own_files() {
  std::vector<std::string> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(own_device_folder(), none))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

// The file that describes what is there; the user's own are asked first.
template <class Found>
std::optional<std::string> file_of(const Found& found) {
  std::vector<std::string> all = own_files();
  const std::vector<std::string> shipped = config::assets_in("device");
  all.insert(all.end(), shipped.begin(), shipped.end());
  for (const std::string& name : all) {
    FactFile file("device", name);
    if (describes(file, found)) return name;
  }
  return std::nullopt;
}

// A name for which the user has a file is that file.
std::string own_or_shipped(const std::string& name) {
  const fs::path own = own_device_folder() / (name + ".yaml");
  std::error_code none;
  return name.find('/') == std::string::npos && fs::exists(own, none) ? own.string() : name;
}

// The rate in bfloat16 depends on a processor's instructions: cpu.yaml has one for each kind.
double half_tflops(FactFile& file, bool is_cpu, const hardware::Processor& processor) {
  const std::string kind = fmt::format("bf16_tflops.{}", hardware::name_of(processor.bf16));
  const auto of_kind = is_cpu ? file.optional_number(kind, 0.0001) : std::nullopt;
  return of_kind ? *of_kind : file.number("bf16_tflops", 0.0001);
}

Device read_device(const std::string& name_or_file, const hardware::Processor& here) {
  FactFile file("device", name_or_file);
  file.texts("matches");
  file.optional_number("multiprocessors", 1);
  const bool is_file = !config::asset("device/" + name_or_file + ".yaml");
  Device d;
  d.name = is_file ? fs::path(name_or_file).stem().string() : name_or_file;
  d.figures = is_file ? Figures::own : Figures::shipped;
  d.file = is_file ? name_or_file : "configs/device/" + name_or_file + ".yaml";
  d.is_cpu = file.flag("per_core", false);
  const auto memory = file.optional_number("memory_gib", 0.01);
  d.memory = memory ? *memory * kGib : here.memory;
  const auto cores_given = file.optional_number("cores", 1);
  if (cores_given && !d.is_cpu) file.fail("'cores' is for a processor (per_core: true)");
  const double cores = d.is_cpu ? cores_given.value_or(here.cores) : 1;
  d.memory_bandwidth = file.number("memory_gbytes_per_second", 0.01) * 1e9 * cores;
  d.half_rate = half_tflops(file, d.is_cpu, here) * 1e12 * cores;
  d.single_rate = file.number("fp32_tflops", 0.0001) * 1e12 * cores;
  d.efficiency = file.number("efficiency", 0.01);
  d.single_efficiency = file.optional_number("efficiency_fp32", 0.01);
  d.link = file.number("link_gbytes_per_second", 0.001) * 1e9;
  d.network = file.number("network_gbytes_per_second", 0.001) * 1e9;
  d.watts = file.number("watts", 0) * cores;
  d.usd_per_hour = file.number("usd_per_hour", 0) * cores;
  file.finish();
  if (d.efficiency > 1) file.fail("'efficiency' is more than 1");
  if (d.single_efficiency.value_or(0) > 1) file.fail("'efficiency_fp32' is more than 1");
  return d;
}

}  // namespace

fs::path own_device_folder() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const fs::path base = config && *config ? fs::path(config) : fs::path(expand_home("~/.config"));
  return base / "dpo" / "device";
}

Device load_device(const std::string& name_or_file) {
  return read_device(own_or_shipped(name_or_file), hardware::find_processor());
}

Device device_of(const hardware::Gpu& gpu) {
  const auto file = file_of(gpu);
  Device device = file ? read_device(*file, {}) : estimate(gpu);
  device.memory = static_cast<double>(gpu.memory_bytes);
  device.has_half = has_half(gpu);
  return device;
}

Device device_of(const hardware::Processor& processor) {
  return read_device(file_of(processor).value_or("cpu"), processor);
}

}  // namespace dpo::plan
