#include <memory>

#include <CLI/CLI.hpp>

#include "cli/bench_arguments.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace dpo::cli {

void add_bench_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand("bench", "measures this machine");
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App& train = describe_bench(command, *arguments);
  train.callback([&train, &action, &words, arguments] {
    overrides_of(train);
    action = [&words]() -> int { run_engine(words); };
  });
}

}  // namespace dpo::cli
