#pragma once

#include <string>
#include <vector>

#include "hardware/gpus.h"

namespace dpo::hardware {

struct DriverAnswer {
  int cuda = 0;   // newest supported CUDA version, 13000 for 13.0; 0: there is no driver
  int error = 0;  // CUresult of cuInit or cuDeviceGetCount; 0 if the only problem is that there is no GPU
  std::vector<Gpu> gpus;
};

// Asks the GPU driver. Its library is loaded at run time, because it comes with the driver, not with a
// toolkit that a build can link.
DriverAnswer read_driver();

}  // namespace dpo::hardware
