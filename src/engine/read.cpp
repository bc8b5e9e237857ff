#include <sys/resource.h>

#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "checkpoint/load.h"
#include "engine/loading.h"
#include "engine/run_commands.h"

namespace dpo::engine {
namespace {

struct ReadArguments {
  std::string model;
  std::string dtype;
};

void describe(CLI::App& command, ReadArguments& arguments) {
  command.description("measure how long reading a model takes, as JSON");
  command.add_option("MODEL", arguments.model)->required();
  command.add_option("--dtype", arguments.dtype);
}

int read_weights(const ReadArguments& arguments) {
  const auto& [model, dtype] = arguments;
  using Clock = std::chrono::steady_clock;
  const at::ScalarType type = dtype.empty() ? checkpoint::stored_dtype(model) : scalar_type_named(dtype);
  std::int64_t bytes = 0;
  const auto count = [&](std::int64_t, std::int64_t all) { bytes = all; };
  const Clock::time_point start = Clock::now();
  const checkpoint::LoadedModel loaded = checkpoint::load_model(model, type, at::kCPU, std::nullopt, count);
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  std::int64_t memory = 0;
  for (const model::BlockWeights& block : loaded.weights.blocks)
    memory += static_cast<std::int64_t>(block.flat.nbytes());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{}\n", nlohmann::json{{"bytes", bytes},
                                    {"seconds", elapsed.count()},
                                    {"weights_bytes", memory},
                                    {"peak_bytes", usage.ru_maxrss * 1024}}
                         .dump());
  return 0;
}

}  // namespace

commands::Command read_command() { return commands::make_command<ReadArguments>("read", read_weights); }

}  // namespace dpo::engine
