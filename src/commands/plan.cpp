#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/terminal.h"
#include "commands/commands.h"
#include "commands/data_lengths.h"
#include "commands/fetch.h"
#include "commands/modern_keys.h"
#include "commands/run_keys.h"
#include "data/chat_files.h"
#include "plan/gather_inputs.h"
#include "plan/output.h"

namespace dpo::commands {
namespace {

struct PlanArguments {
  config::Request request;
  plan::MachineRequest machine;
  bool fit = false;
  bool largest = false;
  bool json = false;
};

int print_largest(const PlanArguments& arguments) {
  config::Request request = arguments.request;
  request.not_needed = {"model.name_or_path", "exp_name"};
  config::Resolved resolved = config::compose(request);
  print_notes(resolved.notes);
  if (resolved.values.exp_name.empty()) resolved.values.exp_name = "largest";  // no plan depends on it
  const config::RunConfig& run = resolved.values;
  if (!run.model.name_or_path.empty() || run.model.archive || run.resume)
    throw UserError(
        "--largest looks for a model, and this command names one (model, model.archive or resume); with a "
        "model use --fit");
  const plan::Machine machine = plan::find_machine(arguments.machine);
  print_notes(machine.notes);
  const std::vector<plan::LargestModel> models = plan::find_largest(resolved.values, machine);
  fmt::print("{}", arguments.json
                       ? plan::to_json(models)
                       : plan::to_text(models, resolved.values, machine, wants_colours(STDOUT_FILENO)));
  return models.empty() ? 1 : 0;
}

int print_plan(const PlanArguments& arguments) {
  if (arguments.largest) return print_largest(arguments);
  const config::Resolved asked = config::compose(arguments.request);
  print_notes(asked.notes);
  const plan::Machine machine = plan::find_machine(arguments.machine);
  fetch_for_plan(asked.values, shown_downloads());
  auto [resolved, counted] = fitted(asked, [](const std::string& note) { print_notes({note}); });
  print_notes(counted.notes);
  print_notes(unused_keys_notes(resolved));
  plan::Inputs in = plan::gather_inputs(resolved.values, machine, counted.lengths);
  in.host.has_chat_template = data::has_own_template(resolved.values);
  resolved = with_keys_of_memory(std::move(resolved), in);
  print_notes(resolved.notes);
  const plan::Plan plan = plan::make_plan(in);
  if (!arguments.json) plan::require_full_batch(plan);
  std::optional<plan::Fit> fit;
  if (arguments.fit) fit = plan::find_fastest(in);
  if (arguments.json) {
    fmt::print("{}", plan::to_json(plan, in, fit));
  } else {
    fmt::print("{}", plan::to_text(plan, in, wants_colours(STDOUT_FILENO)));
    if (fit) fmt::print("{}", plan::to_text(*fit, plan));
    if (arguments.fit && !fit)
      fmt::print("\nFound no settings with which this batch fits and keeps the rules{}\n",
                 plan.fits() ? "." : "; see the advice about memory above.");
  }
  return plan.passes() || (fit && fit->plan.passes()) ? 0 : 1;
}

void describe(CLI::App& command, PlanArguments& arguments) {
  command.description("plan a run: memory, time, disk, checks and advice");
  add_run_arguments(
      command, arguments.request,
      {{"dpo plan model=pythia28 loss=sft exp_name=sft",
        "dpo plan model=pythia28 loss=dpo loss.beta=0.1 exp_name=dpo trainer=FSDPTrainer batch_size=64 \\\n"
        "      --gpus 4 --device a100-80gb --fit",
        "dpo plan loss=dpo loss.beta=0.1 batch_size=64 --gpus 1 --device rtx4090 --largest"},
       "Data on this machine is counted. A missing config.json (unless the model is built in) and, if data\n"
       "is counted, a missing tokenizer are downloaded; nothing else is written. Exit status: 0 if the plan\n"
       "passes, 1 if it fails."});
  command.add_option("--gpus", arguments.machine.gpus, "GPUs per machine (default: those of this machine)")
      ->type_name("N")
      ->take_last();
  command.add_option("--nodes", arguments.machine.nodes, "number of machines (default: 1)")
      ->type_name("M")
      ->take_last();
  takes_path(command.add_option(
                 "--device", arguments.machine.device,
                 "device to plan for: a name in configs/device/ or ~/.config/dpo/device/, or a YAML file"))
      ->type_name("NAME")
      ->take_last();
  add_links(command, arguments.machine);
  CLI::Option* const fit =
      command.add_flag("--fit", arguments.fit, "find the fastest plan that fits, and print its overrides");
  command
      .add_flag("--largest", arguments.largest,
                "find the largest model for these GPUs, with all weights trained and with LoRA, and how")
      ->excludes(fit);
  command.add_flag("--json", arguments.json, "print one JSON object");
}

}  // namespace

Command plan_command() { return make_command<PlanArguments>("plan", print_plan); }

}  // namespace dpo::commands
