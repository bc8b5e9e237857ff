#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "hardware/gpus.h"
#include "hardware/processor.h"

namespace dpo::plan {

// Origin of a device's figures: configs/device/, the user's own file, or driver properties.
enum class FiguresOrigin { shipped, own, estimated };

// Share of the rate of large matmuls that a training step reaches: on the H200 0.52 of peak, where matmuls
// reach 0.74. A CPU core has the same ratio.
constexpr double kStepShare = 0.7;

// Figures of one GPU (or the processor), in bytes, bytes per second and FLOP/s.
struct Device {
  std::string name;
  FiguresOrigin origin = FiguresOrigin::shipped;
  std::string file;  // that has the figures; empty: estimated
  double memory = 0;
  double memory_bandwidth = 0;
  double bf16_flops = 0;                  // peak FLOP/s of bfloat16 and float16 matmuls
  double fp32_flops = 0;                  // peak FLOP/s of float32 matmuls
  double fp8_flops = 0;                   // peak FLOP/s of FP8 (e4m3) matmuls; 0: it has none
  double efficiency = 0;                  // share of peak that training reaches
  std::optional<double> fp32_efficiency;  // in float32, where it differs
  double link = 0;                        // bus bandwidth to the other GPUs of the machine, per GPU
  double network = 0;                     // to other machines, per GPU
  double host_link = 25e9;                // to and from host memory, each; PCIe 4 unless the file has a value
  double watts = 0;                       // 0: unknown
  double usd_per_hour = 0;                // 0: unknown
  bool is_cpu = false;
  bool supports_bf16 = true;  // can train in 16 bits

  // Returns the FLOP/s that training reaches.
  double training_flops(bool bf16) const {
    return bf16 ? bf16_flops * efficiency : fp32_flops * fp32_efficiency.value_or(efficiency);
  }
  // Returns the FLOP/s that its matmuls alone reach.
  double matmul_flops(bool bf16) const {
    return std::min(training_flops(bf16) / kStepShare, bf16 ? bf16_flops : fp32_flops);
  }
};

// Loads a device by the name of a user's own file or of one in configs/device/ (the user's comes first), or
// by path. Cores and memory that a file does not give are those of this machine.
Device load_device(const std::string& name_or_file);

// Returns the figures of a GPU in this machine: from a file that matches its name, memory and
// multiprocessors, or else estimated. The memory is always the real one.
Device device_of(const hardware::Gpu& gpu);
Device device_of(const hardware::Processor& processor);

// Estimates the figures from driver properties alone; rough (estimate.cpp).
Device estimate(const hardware::Gpu& gpu);

// True if it can train in bfloat16 and float16.
bool supports_bf16(const hardware::Gpu& gpu);

// True if it has FP8 (e4m3) matmuls: Ada, Hopper and newer.
bool supports_fp8(const hardware::Gpu& gpu);

// Returns the folder of the user's own files: $XDG_CONFIG_HOME/dpo/device, or ~/.config/dpo/device.
std::filesystem::path own_device_folder();

// Rates that large matmuls (FLOP/s) and copies (bytes per second) reached on a device.
struct Measured {
  std::optional<double> bf16;  // in bfloat16, if the device has it
  double fp32 = 0;
  double bandwidth = 0;
  std::optional<double> from_host, to_host;  // of a GPU
  std::optional<double> link;                // between two GPUs
};

// A file like those in configs/device: its name, without folder and .yaml, and its text. `day` is a date such
// as "2026-11-16".
struct DeviceFile {
  std::string name;
  std::string text;
};
constexpr std::string_view kDeviceMark = "measured by 'dpo bench device' on";  // near the beginning of each
DeviceFile describe_measured(const hardware::Gpu& gpu, const Measured& measured, const std::string& day);
DeviceFile describe_measured(const hardware::Processor& processor, const Measured& measured,
                             const std::string& day);

}  // namespace dpo::plan
