#pragma once

#include <string>
#include <vector>

#include "hardware/gpus.h"

namespace dpo::hardware {

struct DriverAnswer {
  int cuda = 0;   // the newest CUDA that it supports: 13000 for 13.0; 0: there is no driver
  int error = 0;  // CUresult of cuInit or cuDeviceGetCount; 0 if it only found no GPU
  std::vector<Gpu> gpus;
};

// Loads the driver's library at run time: it comes with the driver, not with a toolkit to link with.
DriverAnswer read_driver();

}  // namespace dpo::hardware
