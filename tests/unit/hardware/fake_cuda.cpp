// A driver of made-up GPUs, which environment variables describe. FAKE_GPUS lists the GPUs, each as
// "name|major|minor|multiprocessors|clock kHz|memory clock kHz|bus bits|MiB" and a semicolon. FAKE_CUDA_ERROR
// is the result of cuInit, and FAKE_CUDA_VERSION the supported version of CUDA.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

std::vector<std::vector<std::string>> gpus() {
  std::vector<std::vector<std::string>> all;
  const char* text = std::getenv("FAKE_GPUS");
  std::istringstream list(text ? text : "");
  for (std::string gpu; std::getline(list, gpu, ';');) {
    all.emplace_back();
    std::istringstream parts(gpu);
    for (std::string part; std::getline(parts, part, '|');) all.back().push_back(part);
  }
  return all;
}

int part(int device, std::size_t which) {
  return std::atoi(gpus().at(static_cast<std::size_t>(device)).at(which).c_str());
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return number("FAKE_CUDA_ERROR", gpus().empty() ? 100 : 0); }

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(gpus().size());
  return 0;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, gpus().at(static_cast<std::size_t>(device)).at(0).c_str(),
               static_cast<std::size_t>(size));
  return 0;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = static_cast<std::size_t>(part(device, 7)) << 20;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 75: *value = part(device, 1); return 0;
    case 76: *value = part(device, 2); return 0;
    case 16: *value = part(device, 3); return 0;
    case 13: *value = part(device, 4); return 0;
    case 36: *value = part(device, 5); return 0;
    case 37: *value = part(device, 6); return 0;
    default: return 1;
  }
}

// cuDeviceGetP2PAttribute is missing, as it is in an old driver.

}  // extern "C"
