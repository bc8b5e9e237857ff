#include <optional>

#include <CLI/CLI.hpp>

#include "commands/commands.h"

namespace dpo::commands {

std::vector<CLI::Option*> add_links(CLI::App& command, plan::MachineRequest& machine) {
  const auto add = [&command](const char* name, std::optional<double>& rate, const char* help) {
    return command.add_option(name, rate, help)->type_name("GB/S")->take_last();
  };
  return {add("--link", machine.link, "bandwidth between the GPUs of a machine (default: the device's)"),
          add("--network", machine.network, "bandwidth of a GPU to other machines (default: the device's)")};
}

void describe(CLI::App& command, BenchTrainArguments& arguments) {
  command.description(
      "measure a run's speed and memory with random weights and tokens, and compare with its plan");
  arguments.request.not_needed = {"exp_name", "datasets"};
  add_run_arguments(
      command, arguments.request,
      {{"dpo bench train model=pythia28 loss=dpo loss.beta=0.1",
        "dpo bench train model=gpt2-large loss=sft batch_size=8 max_length=128 --updates 2 --profile",
        "dpo bench train model=pythia28 loss=dpo loss.beta=0.1 trainer=FSDPTrainer --as 8xh100 \\\n"
        "      --pairs-per-gpu 1,2,4"},
       "Text lengths follow the data set's statistics; neither data nor weights are read.\n"
       "With --as, one process computes one rank's share of a run of many: shards, kernels, optimizer and\n"
       "memory are real, and collectives are copies that take as long as the plan says "
       "(docs/fsdp-rule.md)."});
  const auto read_as = [&arguments](const std::string& text) {
    arguments.as = text;
    plan::read_machines(text, arguments.machine);
  };
  CLI::Option* const as = command
                              .add_option_function<std::string>(
                                  "--as", read_as,
                                  "rehearse a run on other machines, such as 8xh100, or 4x8xh100 for 4 "
                                  "machines of 8; the device is a name or file, as for 'dpo plan'")
                              ->type_name("GPUS")
                              ->take_last();
  for (CLI::Option* const option : add_links(command, arguments.machine)) option->needs(as);
  command
      .add_option(
          "--pairs-per-gpu", arguments.pairs_per_gpu,
          "examples per GPU and microbatch, such as 1,2,4: rehearses a run for each, with the batch_size "
          "that it needs")
      ->type_name("N,N")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}).description(""))
      ->needs(as);
  command
      .add_option("--updates", arguments.updates,
                  "number of updates to measure, after 2 to warm up (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}).description(""));
  command
      .add_flag("--profile", arguments.profile,
                "show where an update's time goes: GPU kernels by part, or a CPU's operators")
      ->excludes(as);
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
