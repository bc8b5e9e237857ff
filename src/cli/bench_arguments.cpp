#include "cli/bench_arguments.h"

#include <CLI/CLI.hpp>

namespace dpo::cli {

BenchCommands describe_bench(CLI::App& command, BenchArguments& arguments) {
  command.require_subcommand(1);
  CLI::App& train = *command.add_subcommand(
      "train",
      "updates of a run on random weights and tokens: pairs per second, memory, and the plan beside them");
  arguments.request.not_needed = {"exp_name"};
  add_run_arguments(train, arguments.request,
                    {{"dpo bench train model=pythia28 loss=dpo loss.beta=0.1",
                      "dpo bench train model=gpt2-large loss=sft batch_size=8 max_length=128 --updates 2"},
                     "Lengths of texts follow the data set's statistics; no data and no weights are read."});
  train.add_option("--updates", arguments.updates, "updates to measure (default: 5, after 2 that are not)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
  train.add_flag("--json", arguments.json, "one JSON object instead of a table");

  CLI::App& device = *command.add_subcommand(
      "device", "this machine's GPU, or its processor: products, memory and links, kept for later plans");
  takes_path(device.add_option("--output", arguments.output,
                               "the device file to write (default: one in ~/.config/dpo/device, which plans "
                               "for this machine use)"))
      ->type_name("FILE");
  device.add_flag("--json", arguments.json, "one JSON object instead of a table");
  return {train, device};
}

}  // namespace dpo::cli
