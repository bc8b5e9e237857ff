// dpo-engine: the commands that compute, linked with LibTorch. `dpo` starts it; see cli/engine.h.
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ops/devices.h"

namespace {

// What `dpo doctor` asks for.
int print_devices() {
  const dpo::TensorLibrary library = dpo::describe_tensor_library();
  nlohmann::json gpus = nlohmann::json::array();
  for (const dpo::Gpu& gpu : library.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"compute_capability", gpu.compute_capability},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  const nlohmann::json report = {
      {"version", library.version},
      {"folder", library.folder.string()},
      {"cpu_instructions", library.cpu_instructions},
      {"threads", library.threads},
      {"cuda_part", library.cuda_part},
      {"nccl", library.nccl_version ? nlohmann::json(*library.nccl_version) : nlohmann::json()},
      {"gpus", gpus}};
  fmt::print("{}\n", report.dump());
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"devices"}) return print_devices();
  throw dpo::UserError("dpo-engine is started by dpo; call dpo, and see dpo --help");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::span arguments(argv + 1, argv + argc);
    return run({arguments.begin(), arguments.end()});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
