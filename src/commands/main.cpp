#include <cstdlib>

#include <CLI/CLI.hpp>

#include "commands/commands.h"
#include "commands/engine.h"

int main(int argc, char** argv) {
  using namespace dpo::commands;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  CLI::App program("Train language models on preferences: SFT, then DPO and related losses.", "dpo");
  program.set_version_flag("--version", DPO_VERSION, "print the version and exit");
  // For commands that compute, dpo execs dpo-engine with the same arguments.
  const auto engine = [&arguments](const auto&) -> int { run_engine(arguments); };
  const auto demo = [&engine](const DemoArguments& parsed) {
    // One thread on the CPU gives the same numbers everywhere, and a model this small would not be faster
    // with more.
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    ::unsetenv("MLFLOW_TRACKING_URI");  // keeps its runs out of the user's trackers
    ::setenv("WANDB_MODE", "disabled", 1);
    return engine(parsed);
  };
  return run_program(program,
                     {make_command<DemoArguments>("demo", demo),
                      make_command<TrainArguments>("train", engine),
                      plan_command(),
                      fetch_command(),
                      push_command(),
                      config_command(),
                      data_command(),
                      cache_command(),
                      doctor_command(),
                      tokenize_command(),
                      render_command(),
                      make_command<ConvertArguments>("convert", engine),
                      make_command<MergeArguments>("merge", engine),
                      make_command<InitArguments>("init", engine),
                      make_command<SampleArguments>("sample", engine),
                      make_command<ScoreArguments>("score", engine),
                      report_command(),
                      serve_command(),
                      track_command(),
                      make_group("bench", kBenchHelp,
                                 {make_command<BenchTrainArguments>("train", engine),
                                  make_command<BenchDeviceArguments>("device", engine)})},
                     arguments, /*first_steps=*/{"demo", "data", "plan", "train", "serve", "sample"});
}
