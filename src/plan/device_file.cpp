#include "plan/device_file.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "plan/units.h"

namespace dpo::plan {
namespace {

// Of the rate of large products a training step reaches about this: on the H200 0.52 of the peak where
// products reach 0.74 of it, and the same on a core of a processor.
constexpr double kStepShare = 0.7;

// "NVIDIA GeForce RTX 3090" -> "geforce-rtx-3090".
std::string file_name_of(std::string name) {
  if (name.starts_with("NVIDIA ")) name.erase(0, 7);
  std::string out;
  for (const char c : name) {
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

// What was seen, as comments: the figures below them are made of it.
std::string seen(const std::string& device, const Measured& m, const std::string& day) {
  std::string text =
      fmt::format("# {}, measured by 'dpo bench device' on {}.\n# Large matrix products: ", device, day);
  if (m.half) text += fmt::format("{} TFLOP/s in bfloat16, ", tera(*m.half));
  text += fmt::format("{} in float32.\n", tera(m.single));
  if (m.from_host && m.to_host)
    text += fmt::format("# Host link: {} GB/s to the device, {} from it (no plan uses it).\n",
                        giga(*m.from_host), giga(*m.to_host));
  return text;
}

struct Peak {
  double rate, efficiency;
};

// `told`: the peak as it was known before; one that was passed was none.
Peak peak_beside(double told, double measured) {
  const double rate = std::max(told, measured);
  return {rate, kStepShare * measured / rate};
}

}  // namespace

DeviceFile describe_measured(const hardware::Gpu& gpu, const Measured& m, const std::string& day) {
  const Device before = device_of(gpu);
  const Peak single = peak_beside(before.single_rate, m.single);
  const Peak half = m.half ? peak_beside(before.half_rate, *m.half) : single;
  std::string text = seen(gpu.name, m, day);
  text += fmt::format("matches: [{}]\nmultiprocessors: {}\nmemory_gib: {:.4g}\n", quoted(gpu.name),
                      gpu.multiprocessors, static_cast<double>(gpu.memory_bytes) / kGib);
  text += fmt::format("memory_gbytes_per_second: {}\n", giga(m.bandwidth));
  text += fmt::format("bf16_tflops: {}  # peaks: the maker's, or estimated\nfp32_tflops: {}\n",
                      tera(half.rate), tera(single.rate));
  text +=
      fmt::format("efficiency: {:.3f}  # share of the peak that a step reaches: {} of what products did\n",
                  half.efficiency, kStepShare);
  text += fmt::format("efficiency_fp32: {:.3f}  # the same in float32\n", single.efficiency);
  text += fmt::format("link_gbytes_per_second: {}  # {}\n", giga(m.link.value_or(before.link)),
                      m.link ? "a copy from one GPU to another" : "not measured");
  text += fmt::format("network_gbytes_per_second: {}  # not measured, as what follows\nwatts: {:.4g}\n",
                      giga(before.network), before.watts);
  text += fmt::format("usd_per_hour: {:.4g}\n", before.usd_per_hour);
  return {before.figures == Figures::estimated ? file_name_of(gpu.name) : before.name, text};
}

DeviceFile describe_measured(const hardware::Processor& processor, const Measured& m,
                             const std::string& day) {
  const Device before = device_of(processor);
  const double cores = processor.cores;
  const std::string name = processor.name.empty() ? "a processor without a name" : processor.name;
  std::string text = seen(name, m, day);
  text += fmt::format("# Figures are for one of {:.3g} cores that worked together.\n", cores);
  text +=
      fmt::format("matches: [{}]\nper_core: true\nmemory_gib: null  # that of the machine\n", quoted(name));
  text += fmt::format("memory_gbytes_per_second: {}\n", giga(m.bandwidth / cores));
  text += fmt::format("bf16_tflops: {}  # of the products\nfp32_tflops: {}\n",
                      tera(m.half.value_or(m.single) / cores), tera(m.single / cores));
  text += fmt::format("efficiency: {}  # share of these rates that a training step reaches\n", kStepShare);
  text += fmt::format("link_gbytes_per_second: {}  # not measured, as what follows\n", giga(before.link));
  text += fmt::format("network_gbytes_per_second: {}\nwatts: {:.4g}\nusd_per_hour: {:.4g}\n",
                      giga(before.network), before.watts / cores, before.usd_per_hour / cores);
  return {processor.name.empty() ? "cpu" : "cpu-" + file_name_of(processor.name), text};
}

}  // namespace dpo::plan
