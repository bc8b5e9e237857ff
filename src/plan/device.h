#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hardware/gpus.h"
#include "hardware/processor.h"

namespace dpo::plan {

// Who says a device's figures: configs/device/, a file of the user's own, or arithmetic.
enum class Figures { shipped, own, estimated };

// One GPU (or the processor) in figures: bytes, bytes per second, FLOP/s.
struct Device {
  std::string name;
  Figures figures = Figures::shipped;
  std::string file;  // that they stand in
  double memory = 0;
  double memory_bandwidth = 0;
  double half_rate = 0;                     // bfloat16 and float16 matrix products, peak
  double single_rate = 0;                   // float32, peak
  double efficiency = 0;                    // share of the peak that a training step reaches
  std::optional<double> single_efficiency;  // the same in float32, where it is another
  double link = 0;                          // bus bandwidth to the other GPUs of the machine, per GPU
  double network = 0;                       // to other machines, per GPU
  double watts = 0;                         // 0: unknown
  double usd_per_hour = 0;                  // 0: unknown
  bool is_cpu = false;
  bool has_half = true;  // computes in 16 bits at all

  // FLOP/s that a training step reaches.
  double step_rate(bool half) const {
    return half ? half_rate * efficiency : single_rate * single_efficiency.value_or(efficiency);
  }
};

// A name of the user's own files or of configs/device/ (the former win), or else a path. What is said of no
// processor in particular is that of this machine's.
Device load_device(const std::string& name_or_file);

// The figures of a GPU that is there: by a file that describes it, by name, memory and multiprocessors; or
// else estimated from what its driver says. The memory is the real one.
Device device_of(const hardware::Gpu& gpu);
Device device_of(const hardware::Processor& processor);

// From the driver's properties alone.
Device estimate(const hardware::Gpu& gpu);

// Whether it computes in bfloat16 and float16.
bool has_half(const hardware::Gpu& gpu);

// Where the user's own files are: $XDG_CONFIG_HOME/dpo/device, or ~/.config/dpo/device.
std::filesystem::path own_device_folder();

}  // namespace dpo::plan
