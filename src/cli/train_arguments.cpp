#include "cli/train_arguments.h"

#include <CLI/CLI.hpp>

namespace dpo::cli {

void describe_train(CLI::App& command, TrainArguments& arguments) {
  add_run_arguments(command, arguments.request);
  command.footer(
      "The plan is made and printed first; a run that cannot work is refused before anything is touched.\n"
      "SIGTERM, SIGINT and SIGUSR1 end a run after the update under way, with a checkpoint and exit status "
      "143;\n"
      "resume=RUN goes on from there. A training failure ends with exit status 2.");
}

}  // namespace dpo::cli
