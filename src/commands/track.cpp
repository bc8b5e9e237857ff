#include <optional>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/quantity.h"
#include "commands/commands.h"
#include "track/mlflow.h"

namespace dpo::commands {
namespace {

struct TrackArguments {
  std::string run;
  std::optional<std::string> uri;
};

void describe(CLI::App& command, TrackArguments& arguments) {
  command.description("send to MLflow what a run could not send");
  takes_path(command.add_option("RUN", arguments.run, "run folder"))->required();
  command
      .add_option("--uri", arguments.uri,
                  "MLflow server to send the whole run to (default: the rest, to the run's own)")
      ->type_name("URI");
  command.footer("A run that is training sends by itself. See docs/tracking.md.");
}

int run_track(const TrackArguments& arguments) {
  const track::MlflowSent sent = track::send_mlflow_queue(arguments.run, arguments.uri);
  if (!sent.warning.empty()) fmt::print(stderr, "warning: {}\n", sent.warning);
  fmt::print(stderr, "sent {}\n", plural(sent.values, "value"));
  fmt::print("{}\n", sent.page);
  return 0;
}

}  // namespace

Command track_command() { return make_command<TrackArguments>("track", run_track); }

}  // namespace dpo::commands
