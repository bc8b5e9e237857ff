#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/run_facts.h"
#include "track/senders.h"

namespace dpo::commands {
namespace {

struct TrackArguments {
  std::string run;
  std::string to;
};

void describe(CLI::App& command, TrackArguments& arguments) {
  std::vector<std::string> names;
  for (const track::Package& package : track::packages()) names.emplace_back(package.name);
  command.description("send a run to Weights & Biases, MLflow, trackio or SwanLab");
  takes_path(command.add_option("RUN", arguments.run, "run folder"))->required();
  command.add_option("--to", arguments.to, "the tracker, by the name of its Python package")
      ->required()
      ->check(CLI::IsMember(names));
  command.footer(
      "Sends what the tracker does not have yet, with its package of python3, and follows a run that "
      "trains.\n"
      "Runs are sent while they train if wandb.enabled or another key says so. See docs/tracking.md.");
}

void require_mlflow_server(const config::RunConfig& config) {
  const char* const variable = std::getenv("MLFLOW_TRACKING_URI");
  if (!config.mlflow.tracking_uri && (!variable || !*variable))
    throw UserError("the run has no mlflow.tracking_uri: set MLFLOW_TRACKING_URI=http://HOST:PORT");
  const std::string problem =
      config.mlflow.tracking_uri
          ? track::problem_of_mlflow_uri("mlflow.tracking_uri", *config.mlflow.tracking_uri)
          : track::problem_of_mlflow_uri("MLFLOW_TRACKING_URI", variable);
  if (!problem.empty()) throw UserError(problem);
}

int run_track(const TrackArguments& arguments) {
  const std::filesystem::path run = arguments.run;
  if (!std::filesystem::is_regular_file(run / "metrics.jsonl"))
    throw UserError(fmt::format("{}: not a run folder: there is no metrics.jsonl in it", run.string()));
  const config::Resolved resolved = read_run_config(run);
  if (arguments.to == "mlflow") require_mlflow_server(resolved.values);
  track::send_run(run, tracked_config(resolved, commits_of(run)), arguments.to);
}

}  // namespace

Command track_command() { return make_command<TrackArguments>("track", run_track); }

}  // namespace dpo::commands
