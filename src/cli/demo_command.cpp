#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/demo_arguments.h"
#include "cli/engine.h"

namespace dpo::cli {

void add_demo_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand(
      "demo", "a small model trained by SFT and DPO in a minute, and what it learned");
  const auto arguments = std::make_shared<DemoArguments>();
  describe_demo(command, *arguments);
  command.callback([&action, &words, arguments] {
    action = [&words]() -> int {
      // The same numbers everywhere. For a model this small more cores, or a GPU, would only wait.
      ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
      ::setenv("OMP_NUM_THREADS", "1", 1);
      run_engine(words);
    };
  });
}

}  // namespace dpo::cli
