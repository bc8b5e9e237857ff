#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {
namespace {

constexpr const char* kShort = "dpo train model=MODEL data=chats.jsonl loss=dpo";
constexpr const char* kResume = "dpo train resume=runs/dpo-MODEL";
constexpr const char* kOriginal =
    "dpo train model=pythia28 datasets=[hh] loss=dpo loss.beta=0.1 exp_name=dpo model.archive=sft/LATEST";
constexpr const char* kNotes =
    "MODEL is a model folder, or a model name ORG/NAME on the Hugging Face hub. chats.jsonl has lines\n"
    "{\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}, of messages or of text (docs/data.md). The first "
    "form\n"
    "chooses defaults=modern, the last one the defaults of direct-preference-optimization "
    "(docs/training.md).\n\n"
    "The plan is made first, and summed up in five lines; if it fails, the run does not start and no files "
    "are\n"
    "written. Then weights and data that are not on this machine are downloaded. Messages go to stderr, the\n"
    "path of the last checkpoint to stdout.\n"
    "SIGTERM, SIGINT (Ctrl-C) and SIGUSR1 stop a run after the current update, with a checkpoint and exit\n"
    "status 143; dpo train resume=RUN continues it. If training fails, the exit status is 2.";

}  // namespace

void describe(CLI::App& command, TrainArguments& arguments) {
  command.description("train a model: SFT or preference optimization");
  add_run_arguments(command, arguments.request, {{kShort, kResume, kOriginal}, kNotes, /*shows_keys=*/true});
  CLI::Option* const quiet = command.add_flag("--quiet", arguments.quiet, "print only warnings and errors");
  command.add_flag("--verbose", arguments.verbose, "print the whole plan")->excludes(quiet);
  command.add_flag("--json-log", arguments.json_log,
                   "print events of the run on stdout, one JSON object each");
}

}  // namespace dpo::commands
