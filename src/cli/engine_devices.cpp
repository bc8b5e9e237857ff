#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/engine_commands.h"
#include "comm/backends.h"
#include "ops/devices.h"
#include "ops/fused.h"

namespace dpo::cli {
namespace {

int print_devices() {
  const TensorLibrary library = describe_tensor_library();
  const nlohmann::json report = {
      {"version", library.version},
      {"folder", library.folder.string()},
      {"cpu_instructions", library.cpu_instructions},
      {"threads", library.threads},
      {"cuda_part", library.cuda_part},
      {"own_kernels", ops::fused::has_kernels()},
      {"nccl", library.nccl_version ? nlohmann::json(*library.nccl_version) : nlohmann::json()},
      {"mpi_part", comm::has_mpi()},
      {"nccl_part", comm::has_nccl()}};
  fmt::print("{}\n", report.dump());
  return 0;
}

}  // namespace

// What `dpo doctor` asks for.
void add_engine_devices(CLI::App& engine, Action& action) {
  engine.add_subcommand("devices", "the tensor library, as JSON")->callback([&action] {
    action = print_devices;
  });
}

}  // namespace dpo::cli
