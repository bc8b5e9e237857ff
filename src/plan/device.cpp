#include "plan/device.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/quantity.h"
#include "base/user_path.h"
#include "config/assets.h"
#include "plan/yaml_file.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

// Drivers report "NVIDIA H200", older ones "H200".
std::string without_vendor(const std::string& name) {
  constexpr std::string_view kVendor = "NVIDIA ";
  return name.starts_with(kVendor) ? name.substr(kVendor.size()) : name;
}

bool names(YamlFile& file, const std::string& device) {
  return std::ranges::any_of(file.texts("matches"), [&](const std::string& name) {
    return without_vendor(name) == without_vendor(device);
  });
}

// Compares more than the name, because GPUs of one name differ in memory (A100) and in how much of the chip
// is in use (laptops, MIG).
bool describes(YamlFile& file, const hardware::Gpu& gpu) {
  if (!names(file, gpu.name)) return false;
  const auto multiprocessors = file.optional_number("multiprocessors", 1);
  if (multiprocessors && *multiprocessors != gpu.multiprocessors) return false;
  const auto memory = file.optional_number("memory_gib", 0.01);
  constexpr double kTolerance = 0.1;  // the driver takes a share, and vendors write GB for GiB
  const double gib = static_cast<double>(gpu.memory_bytes) / kGib;
  return !memory || std::abs(*memory - gib) < kTolerance * gib;
}

bool describes(YamlFile& file, const hardware::Processor& processor) {
  return file.flag("per_core", false) && !processor.name.empty() && names(file, processor.name);
}

// Returns the user's own files, sorted.
std::vector<std::string> own_files() {
  std::vector<std::string> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(own_device_folder(), none))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

// Returns the file that describes this device; the user's own come first.
template <class Found>
std::optional<std::string> file_of(const Found& found) {
  std::vector<std::string> all = own_files();
  const std::vector<std::string> shipped = config::assets_in("device");
  all.insert(all.end(), shipped.begin(), shipped.end());
  for (const std::string& name : all) {
    YamlFile file("device", name);
    if (describes(file, found)) return name;
  }
  return std::nullopt;
}

std::string own_or_shipped(const std::string& name) {
  const fs::path own = own_device_folder() / (name + ".yaml");
  std::error_code none;
  return name.find('/') == std::string::npos && fs::exists(own, none) ? own.string() : name;
}

// The rate in bfloat16 depends on a processor's instructions: cpu.yaml has one for each kind.
double bf16_tflops(YamlFile& file, bool is_cpu, const hardware::Processor& processor) {
  const std::string kind = fmt::format("bf16_tflops.{}", hardware::name_of(processor.bf16));
  const auto of_kind = is_cpu ? file.optional_number(kind, 0.0001) : std::nullopt;
  return of_kind ? *of_kind : file.number("bf16_tflops", 0.0001);
}

Device read_device(const std::string& name_or_file, const hardware::Processor& here) {
  YamlFile file("device", name_or_file);
  file.texts("matches");
  file.optional_number("multiprocessors", 1);
  const bool is_file = !config::asset("device/" + name_or_file + ".yaml");
  Device d;
  d.name = is_file ? fs::path(name_or_file).stem().string() : name_or_file;
  d.origin = is_file ? FiguresOrigin::own : FiguresOrigin::shipped;
  d.file = is_file ? name_or_file : "configs/device/" + name_or_file + ".yaml";
  d.is_cpu = file.flag("per_core", false);
  const auto memory = file.optional_number("memory_gib", 0.01);
  d.memory = memory ? *memory * kGib : here.memory;
  const auto cores_given = file.optional_number("cores", 1);
  if (cores_given && !d.is_cpu) file.fail("'cores' needs per_core: true");
  const double cores = d.is_cpu ? cores_given.value_or(here.cores) : 1;
  d.memory_bandwidth = file.number("memory_gbytes_per_second", 0.01) * 1e9 * cores;
  d.bf16_flops = bf16_tflops(file, d.is_cpu, here) * 1e12 * cores;
  d.fp32_flops = file.number("fp32_tflops", 0.0001) * 1e12 * cores;
  d.fp8_flops = file.optional_number("fp8_tflops", 0.0001).value_or(0) * 1e12 * cores;
  d.efficiency = file.number("efficiency", 0.01);
  d.fp32_efficiency = file.optional_number("efficiency_fp32", 0.01);
  d.link = file.number("link_gbytes_per_second", 0.001) * 1e9;
  d.network = file.number("network_gbytes_per_second", 0.001) * 1e9;
  if (const auto host = file.optional_number("host_gbytes_per_second", 0.001)) d.host_link = *host * 1e9;
  d.watts = file.number("watts", 0) * cores;
  d.usd_per_hour = file.number("usd_per_hour", 0) * cores;
  file.finish();
  if (d.efficiency > 1) file.fail("'efficiency' is more than 1");
  if (d.fp32_efficiency.value_or(0) > 1) file.fail("'efficiency_fp32' is more than 1");
  return d;
}

// Converts "NVIDIA GeForce RTX 3090" to "geforce-rtx-3090".
std::string file_name_of(const std::string& name) {
  std::string out;
  for (const char c : without_vendor(name)) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

std::string tera(double rate) { return fmt::format("{:.4g}", rate / 1e12); }
std::string giga(double rate) { return fmt::format("{:.4g}", rate / 1e9); }

// Returns the measurements as comments. The figures below them are derived from these.
std::string measured_comment(const std::string& device, const Measured& m, const std::string& day) {
  std::string text = fmt::format("# {}, {} {}.\n# Large matmuls: ", device, kDeviceMark, day);
  if (m.bf16) text += fmt::format("{} TFLOP/s in bfloat16, ", tera(*m.bf16));
  text += fmt::format("{} in float32.\n", tera(m.fp32));
  if (m.from_host && m.to_host)
    text += fmt::format("# Host link: {} GB/s to the device, {} from it.\n", giga(*m.from_host),
                        giga(*m.to_host));
  return text;
}

struct Peak {
  double rate, efficiency;
};

// A measured rate above the known peak is the new peak.
Peak measured_peak(double known, double measured) {
  const double rate = std::max(known, measured);
  return {rate, kStepShare * measured / rate};
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
  device.supports_bf16 = supports_bf16(gpu);
  // Tensor cores are twice as fast in half the bits.
  if (!supports_fp8(gpu))
    device.fp8_flops = 0;
  else if (device.fp8_flops == 0)
    device.fp8_flops = 2 * device.bf16_flops;
  return device;
}

Device device_of(const hardware::Processor& processor) {
  return read_device(file_of(processor).value_or("cpu"), processor);
}

DeviceFile describe_measured(const hardware::Gpu& gpu, const Measured& m, const std::string& day) {
  const Device before = device_of(gpu);
  const Peak fp32 = measured_peak(before.fp32_flops, m.fp32);
  const Peak bf16 = m.bf16 ? measured_peak(before.bf16_flops, *m.bf16) : fp32;
  std::string text = measured_comment(gpu.name, m, day);
  text += fmt::format("matches: [{}]\nmultiprocessors: {}\nmemory_gib: {:.4g}\n", quoted(gpu.name),
                      gpu.multiprocessors, static_cast<double>(gpu.memory_bytes) / kGib);
  text += fmt::format("memory_gbytes_per_second: {}\n", giga(m.bandwidth));
  text += fmt::format("bf16_tflops: {}  # peaks: the vendor's, or estimated\nfp32_tflops: {}\n",
                      tera(bf16.rate), tera(fp32.rate));
  if (before.fp8_flops > 0) text += fmt::format("fp8_tflops: {}  # not measured\n", tera(before.fp8_flops));
  text += fmt::format(
      "efficiency: {:.3f}  # share of peak that a training step reaches: {} of what matmuls reach\n",
      bf16.efficiency, kStepShare);
  text += fmt::format("efficiency_fp32: {:.3f}  # the same in float32\n", fp32.efficiency);
  text += fmt::format("link_gbytes_per_second: {}  # {}\n", giga(m.link.value_or(before.link)),
                      m.link ? "a copy from one GPU to another" : "not measured");
  if (m.from_host && m.to_host)
    text += fmt::format("host_gbytes_per_second: {}  # the slower direction\n",
                        giga(std::min(*m.from_host, *m.to_host)));
  text += fmt::format("network_gbytes_per_second: {}  # not measured, like the lines below\nwatts: {:.4g}\n",
                      giga(before.network), before.watts);
  text += fmt::format("usd_per_hour: {:.4g}\n", before.usd_per_hour);
  return {before.origin == FiguresOrigin::estimated ? file_name_of(gpu.name) : before.name, text};
}

DeviceFile describe_measured(const hardware::Processor& processor, const Measured& m,
                             const std::string& day) {
  const Device before = device_of(processor);
  const double cores = processor.cores;
  const std::string name = processor.name.empty() ? "an unknown CPU" : processor.name;
  std::string text = measured_comment(name, m, day);
  text += fmt::format("# Figures are per core, measured with {:.3g} cores at work.\n", cores);
  text += fmt::format("matches: [{}]\nper_core: true\nmemory_gib: null  # the machine's\n", quoted(name));
  text += fmt::format("memory_gbytes_per_second: {}\n", giga(m.bandwidth / cores));
  text += fmt::format("bf16_tflops: {}  # rates of large matmuls\nfp32_tflops: {}\n",
                      tera(m.bf16.value_or(m.fp32) / cores), tera(m.fp32 / cores));
  text += fmt::format("efficiency: {}  # share of these rates that a training step reaches\n", kStepShare);
  text +=
      fmt::format("link_gbytes_per_second: {}  # not measured, like the lines below\n", giga(before.link));
  text += fmt::format("network_gbytes_per_second: {}\nwatts: {:.4g}\nusd_per_hour: {:.4g}\n",
                      giga(before.network), before.watts / cores, before.usd_per_hour / cores);
  return {processor.name.empty() ? "cpu" : "cpu-" + file_name_of(processor.name), text};
}

}  // namespace dpo::plan
