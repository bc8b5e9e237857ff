#include "hardware/driver.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

namespace dpo::hardware {
namespace {

// The parts of CUDA's driver API that are called here. The numbers are those of cuda.h.
constexpr int kNoDevice = 100;
constexpr int kStubLibrary = 34;  // a toolkit's substitute for the driver, for linking only

enum Attribute {
  kClock = 13,  // kHz
  kMultiprocessors = 16,
  kPciBus = 33,
  kPciDevice = 34,
  kMemoryClock = 36,  // kHz
  kBusBits = 37,
  kPciDomain = 50,
  kMajor = 75,
  kMinor = 76,
};
constexpr int kNativeAtomics = 3;  // between two GPUs; not supported over PCIe

class Library {
 public:
  Library() : handle_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}  // stays loaded: CUDA uses it too

  explicit operator bool() const { return handle_ != nullptr; }

  // Calls a driver function and returns its result, or an error if this driver is too old to have it.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(handle_, name));
    return function ? function(arguments...) : 999;
  }

  int attribute(int device, Attribute which) const {
    int value = 0;
    return call("cuDeviceGetAttribute", &value, static_cast<int>(which), device) == 0 ? value : 0;
  }

 private:
  void* handle_;
};

// Returns the bandwidth of a GPU's slot: "16.0 GT/s PCIe" times 16 lanes, 8 bits per byte. The kernel knows
// it, except in WSL.
double pcie_of(const Library& driver, int device) {
  const std::string folder =
      fmt::format("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0/", driver.attribute(device, kPciDomain),
                  driver.attribute(device, kPciBus), driver.attribute(device, kPciDevice));
  double transfers = 0, lanes = 0;
  std::ifstream(folder + "max_link_speed") >> transfers;
  std::ifstream(folder + "max_link_width") >> lanes;
  return transfers * 1e9 * lanes / 8;
}

bool reaches_another(const Library& driver, int device, int count) {
  for (int other = 0; other < count; ++other) {
    int linked = 0;
    if (other != device &&
        driver.call("cuDeviceGetP2PAttribute", &linked, kNativeAtomics, device, other) == 0 && linked != 0)
      return true;
  }
  return false;
}

Gpu read_gpu(const Library& driver, int device, int count) {
  Gpu gpu;
  std::array<char, 256> name{};
  driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device);
  gpu.name = name.data();
  std::size_t bytes = 0;
  driver.call("cuDeviceTotalMem_v2", &bytes, device);
  gpu.memory_bytes = bytes;
  gpu.capability_major = driver.attribute(device, kMajor);
  gpu.capability_minor = driver.attribute(device, kMinor);
  gpu.multiprocessors = driver.attribute(device, kMultiprocessors);
  gpu.clock = driver.attribute(device, kClock) * 1e3;
  gpu.memory_clock = driver.attribute(device, kMemoryClock) * 1e3;
  gpu.bus_bits = driver.attribute(device, kBusBits);
  gpu.pcie = pcie_of(driver, device);
  gpu.nvlink = reaches_another(driver, device, count);
  return gpu;
}

}  // namespace

DriverAnswer read_driver() {
  const Library driver;
  DriverAnswer answer;
  if (!driver) return answer;
  const int started = driver.call("cuInit", 0u);
  if (started == kStubLibrary) return answer;
  driver.call("cuDriverGetVersion", &answer.cuda);
  if (started != 0) {
    answer.error = started == kNoDevice ? 0 : started;
    return answer;
  }
  int count = 0;
  answer.error = driver.call("cuDeviceGetCount", &count);
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if (driver.call("cuDeviceGet", &device, i) == 0) answer.gpus.push_back(read_gpu(driver, device, count));
  }
  return answer;
}

}  // namespace dpo::hardware
