#include <CLI/CLI.hpp>

#include "commands/commands.h"

namespace dpo::commands {

void describe(CLI::App& command, BenchTrainArguments& arguments) {
  command.description(
      "measure a run's speed and memory with random weights and tokens, and compare with its plan");
  arguments.request.not_needed = {"exp_name", "datasets"};
  add_run_arguments(
      command, arguments.request,
      {{"dpo bench train model=pythia28 loss=dpo loss.beta=0.1",
        "dpo bench train model=gpt2-large loss=sft batch_size=8 max_length=128 --updates 2 --profile"},
       "Text lengths follow the data set's statistics; neither data nor weights are read."});
  command
      .add_option("--updates", arguments.updates,
                  "number of updates to measure, after 2 to warm up (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}).description(""));
  command.add_flag("--profile", arguments.profile,
                   "show where an update's time goes: GPU kernels by part, or a CPU's operators");
  command.add_flag("--json", arguments.json, "print one JSON object");
}

void describe(CLI::App& command, BenchDeviceArguments& arguments) {
  command.description("measure this machine's GPU or CPU (matmuls, memory and links) for later plans");
  takes_path(command.add_option("--output", arguments.output,
                                "device file to write (default: in ~/.config/dpo/device, used by plans for "
                                "this machine)"))
      ->type_name("FILE");
  command.add_flag("--json", arguments.json, "print one JSON object");
}

}  // namespace dpo::commands
