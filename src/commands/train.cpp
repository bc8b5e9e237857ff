#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {
namespace {

constexpr const char* kSft =
    "dpo train model.name_or_path=MODEL datasets=[pairs.jsonl] data.test_share=0.1 \\\n"
    "      loss=sft exp_name=sft local_run_dir=sft";
constexpr const char* kDpo =
    "dpo train model.name_or_path=MODEL datasets=[pairs.jsonl] data.test_share=0.1 \\\n"
    "      loss=dpo loss.beta=0.1 exp_name=dpo model.archive=sft/LATEST";
constexpr const char* kNotes =
    "MODEL is a model's folder, or its name ORG/NAME in the Hugging Face cache. pairs.jsonl has lines\n"
    "{\"prompt\": ..., \"chosen\": ..., \"rejected\": ...} (docs/data.md); a tenth is kept for "
    "evaluation.\n\n"
    "The plan is made and printed first; a run that cannot work is refused before anything is touched.\n"
    "SIGTERM, SIGINT (Ctrl-C) and SIGUSR1 end a run after the update under way, with a checkpoint and\n"
    "exit status 143; resume=RUN continues from there. A training failure ends with exit status 2.";

}  // namespace

void describe(CLI::App& command, TrainArguments& arguments) {
  command.description("train a model: SFT or preference optimization");
  add_run_arguments(command, arguments.request, {{kSft, kDpo}, kNotes});
}

}  // namespace dpo::commands
