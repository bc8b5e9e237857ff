#include <cstdlib>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "comm/backends.h"
#include "engine/run_commands.h"
#include "ops/devices.h"
#include "ops/fused.h"

namespace dpo::engine {
namespace {

struct NoArguments {};
void describe(CLI::App& command, NoArguments&) { command.description("describe LibTorch as JSON"); }

int print_devices(const NoArguments&) {
  const char* const algorithms = std::getenv("NCCL_ALGO");
  const TensorLibrary library = describe_tensor_library();
  const nlohmann::json report = {
      {"version", library.version},
      {"folder", library.folder.string()},
      {"cpu_instructions", library.cpu_instructions},
      {"threads", library.threads},
      {"cuda_part", library.cuda_part},
      {"own_kernels", ops::fused::has_kernels()},
      {"nccl", library.nccl_version ? nlohmann::json(*library.nccl_version) : nlohmann::json()},
      {"nccl_algorithms", algorithms ? algorithms : comm::kNcclAlgorithms},
      {"mpi_part", comm::has_mpi()},
      {"nccl_part", comm::has_nccl()}};
  fmt::print("{}\n", report.dump());
  return 0;
}

}  // namespace

commands::Command devices_command() { return commands::make_command<NoArguments>("devices", print_devices); }

}  // namespace dpo::engine
