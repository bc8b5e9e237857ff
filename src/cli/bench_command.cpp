#include <memory>

#include <CLI/CLI.hpp>

#include "cli/bench_arguments.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace dpo::cli {

void add_bench_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand("bench", "measures this machine");
  const auto arguments = std::make_shared<BenchArguments>();
  const BenchCommands parts = describe_bench(command, *arguments);
  const Action engine = [&words]() -> int { run_engine(words); };
  parts.train.callback([&train = parts.train, &action, engine, arguments] {
    overrides_of(train);
    action = engine;
  });
  parts.device.callback([&action, engine, arguments] { action = engine; });
}

}  // namespace dpo::cli
