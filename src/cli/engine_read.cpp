#include <sys/resource.h>

#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "checkpoint/load.h"
#include "cli/engine_commands.h"
#include "cli/engine_work.h"

namespace dpo::cli {
namespace {

int read_weights(const std::string& model, const std::string& dtype) {
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

// For benchmarks/weights_read.py: reads a model and lets it go.
void add_engine_read(CLI::App& engine, Action& action) {
  CLI::App& command = *engine.add_subcommand("read", "how long reading a model takes, as JSON");
  const auto model = std::make_shared<std::string>(), dtype = std::make_shared<std::string>();
  command.add_option("MODEL", *model)->required();
  command.add_option("--dtype", *dtype);
  command.callback([&action, model, dtype] { action = [=] { return read_weights(*model, *dtype); }; });
}

}  // namespace dpo::cli
