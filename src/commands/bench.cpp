#include <CLI/CLI.hpp>

#include "commands/commands.h"

namespace dpo::commands {

void describe(CLI::App& command, BenchTrainArguments& arguments) {
  command.description(
      "updates of a run on random weights and tokens: pairs per second, memory, and the plan beside them");
  arguments.request.not_needed = {"exp_name"};
  add_run_arguments(command, arguments.request,
                    {{"dpo bench train model=pythia28 loss=dpo loss.beta=0.1",
                      "dpo bench train model=gpt2-large loss=sft batch_size=8 max_length=128 --updates 2"},
                     "Lengths of texts follow the data set's statistics; no data and no weights are read."});
  command.add_option("--updates", arguments.updates, "updates to measure (default: 5, after 2 that are not)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
  command.add_flag("--json", arguments.json, "one JSON object instead of a table");
}

void describe(CLI::App& command, BenchDeviceArguments& arguments) {
  command.description(
      "this machine's GPU, or its processor: products, memory and links, kept for later plans");
  takes_path(command.add_option("--output", arguments.output,
                                "the device file to write (default: one in ~/.config/dpo/device, which plans "
                                "for this machine use)"))
      ->type_name("FILE");
  command.add_flag("--json", arguments.json, "one JSON object instead of a table");
}

}  // namespace dpo::commands
