#include <algorithm>
#include <ctime>
#include <filesystem>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/output_files.h"
#include "engine/run_commands.h"
#include "ops/devices.h"
#include "ops/measure.h"
#include "plan/device.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

plan::Measured measure_gpu(const Gpu& gpu, std::size_t count) {
  const at::Device first(at::kCUDA, 0);
  plan::Measured m;
  if (plan::supports_bf16(gpu)) m.bf16 = ops::matmul_flops(first, at::kBFloat16);
  m.fp32 = ops::matmul_flops(first, at::kFloat);
  m.bandwidth = ops::memory_bandwidth(first);
  m.from_host = ops::transfer_bandwidth(at::kCPU, first);
  m.to_host = ops::transfer_bandwidth(first, at::kCPU);
  if (count > 1) m.link = ops::transfer_bandwidth(first, {at::kCUDA, 1});
  return m;
}

plan::Measured measure_processor() {
  plan::Measured m;
  m.bf16 = ops::matmul_flops(at::kCPU, at::kBFloat16);
  m.fp32 = ops::matmul_flops(at::kCPU, at::kFloat);
  m.bandwidth = ops::memory_bandwidth(at::kCPU);
  return m;
}

void print_measured(const std::string& device, const plan::Measured& m, const fs::path& file, bool as_json) {
  const auto or_null = [](const std::optional<double>& rate, double unit) {
    return rate ? nlohmann::ordered_json(*rate / unit) : nlohmann::ordered_json();
  };
  if (as_json) {
    const nlohmann::ordered_json report = {{"device", device},
                                           {"bf16_tflops", or_null(m.bf16, 1e12)},
                                           {"fp32_tflops", m.fp32 / 1e12},
                                           {"memory_gbytes_per_second", m.bandwidth / 1e9},
                                           {"from_host_gbytes_per_second", or_null(m.from_host, 1e9)},
                                           {"to_host_gbytes_per_second", or_null(m.to_host, 1e9)},
                                           {"link_gbytes_per_second", or_null(m.link, 1e9)},
                                           {"file", file.string()}};
    fmt::print("{}\n", report.dump());
    return;
  }
  fmt::print("{}\n", device);
  const auto row = [](const char* what, const std::optional<double>& rate, double unit, const char* name) {
    if (rate) fmt::print("  {:<20} {:>9.4g} {}\n", what, *rate / unit, name);
  };
  row("bfloat16 matmuls", m.bf16, 1e12, "TFLOP/s");
  row("float32 matmuls", m.fp32, 1e12, "TFLOP/s");
  row("memory", m.bandwidth, 1e9, "GB/s");
  row("from the host", m.from_host, 1e9, "GB/s");
  row("to the host", m.to_host, 1e9, "GB/s");
  row("between GPUs", m.link, 1e9, "GB/s");
  fmt::print("written: {}\n", file.string());
}

}  // namespace

int run_bench_device(const commands::BenchDeviceArguments& arguments) {
  if (!arguments.output.empty()) check_replaceable(arguments.output, plan::kDeviceMark);
  const std::vector<Gpu> gpus = list_gpus();
  hardware::Processor processor = hardware::find_processor();
  processor.cores = std::min<double>(processor.cores, at::get_num_threads());  // those of LibTorch
  fmt::print(stderr, "measuring {} for about {} seconds\n", gpus.empty() ? "the CPU" : gpus.front().name,
             gpus.empty() ? 3 : 15);
  const plan::Measured measured = gpus.empty() ? measure_processor() : measure_gpu(gpus.front(), gpus.size());
  const plan::DeviceFile made = gpus.empty() ? plan::describe_measured(processor, measured, today())
                                             : plan::describe_measured(gpus.front(), measured, today());
  const fs::path path = arguments.output.empty() ? plan::own_device_folder() / (made.name + ".yaml")
                                                 : fs::path(arguments.output);
  std::error_code failed;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failed);
  if (failed)
    throw UserError(fmt::format("cannot create {}: {}", path.parent_path().string(), failed.message()));
  check_replaceable(path, plan::kDeviceMark);  // the user's own figures may have this name
  write_file(path, made.text);
  print_measured(gpus.empty() ? processor.name : gpus.front().name, measured, path, arguments.json);
  if (arguments.output.empty())
    fmt::print(stderr, "plans for this machine now use these figures\n");
  else
    fmt::print(stderr, "'dpo plan --device {}' uses these figures\n", path.string());
  return 0;
}

}  // namespace dpo::engine
