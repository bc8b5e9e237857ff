#pragma once

#include <optional>
#include <string>

#include "plan/device.h"

namespace dpo::plan {

// What large matrix products (FLOP/s) and copies (bytes per second) reached on a device.
struct Measured {
  std::optional<double> half;  // in bfloat16; none where the device has none
  double single = 0;
  double bandwidth = 0;
  std::optional<double> from_host, to_host;  // of a GPU
  std::optional<double> link;                // between two GPUs
};

// A file like those of configs/device: its name, without folder and .yaml, and its text. `day`: "2026-11-16".
struct DeviceFile {
  std::string name;
  std::string text;
};
DeviceFile describe_measured(const hardware::Gpu& gpu, const Measured& measured, const std::string& day);
DeviceFile describe_measured(const hardware::Processor& processor, const Measured& measured,
                             const std::string& day);

}  // namespace dpo::plan
