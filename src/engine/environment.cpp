#include "engine/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/output_files.h"
#include "hardware/processor.h"
#include "ops/devices.h"

namespace dpo::engine {

void write_environment(const std::filesystem::path& folder, const comm::World& world,
                       const train::Listener& listener) try {
  const TensorLibrary library = describe_tensor_library();
  const hardware::Processor cpu = hardware::find_processor();
  nlohmann::ordered_json environment = {{"dpo", DPO_VERSION},
                                        {"LibTorch", library.version},
                                        {"CPU", cpu.name},
                                        {"CPU cores", fmt::format("{:g}", cpu.cores)},
                                        {"threads", library.threads},
                                        {"processes", world.all->size()}};
  std::vector<std::string> gpus;
  for (const Gpu& gpu : list_gpus()) gpus.push_back(gpu.name);
  if (!gpus.empty()) environment["GPUs"] = fmt::format("{}", fmt::join(gpus, ", "));
  write_file(folder / "environment.json",
             environment.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
} catch (const std::exception& error) {
  listener.warn(fmt::format("the report will not show the environment: {}", error.what()));
}

}  // namespace dpo::engine
