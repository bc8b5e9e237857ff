#pragma once

#include <string>
#include <vector>

#include "hardware/gpus.h"

namespace dpo::hardware {

struct DriverAnswer {
  int cuda = 0;  // the newest CUDA that it serves: 13000 for 13.0; 0: there is no driver
  int error =
      0;  // CUresult of its start, where it is there and shows no GPU for another reason than having none
  std::vector<Gpu> gpus;
};

// Loads the driver's library, which comes with the driver and with no toolkit, so nothing is linked with it.
DriverAnswer read_driver();

}  // namespace dpo::hardware
