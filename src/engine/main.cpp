// dpo-engine runs the commands that compute and is linked with LibTorch. `dpo` starts it; see
// commands/engine.h.
#include <algorithm>
#include <cstdlib>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include "engine/run_commands.h"
#include "hardware/processor.h"

int main(int argc, char** argv) {
  using namespace dpo::commands;
  using namespace dpo::engine;
  // LibTorch requests huge pages if this is set at its first allocation. A step allocates and frees
  // gigabytes, and small pages cost a fifth of its time on a CPU.
  ::setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);
  // LibTorch counts the machine's cores and ignores a container's quota, beyond which threads only wait.
  if (!std::getenv("OMP_NUM_THREADS"))
    at::set_num_threads(std::min(at::get_num_threads(), dpo::hardware::find_processor().threads()));
  CLI::App engine("The computing part of dpo, started by dpo. See 'dpo --help'.", "dpo-engine");
  return run_program(
      engine,
      {make_command<TrainArguments>("train", run_train), make_command<DemoArguments>("demo", run_demo),
       make_command<SampleArguments>("sample", run_sample), make_command<ScoreArguments>("score", run_score),
       make_command<ConvertArguments>("convert", run_convert),
       make_command<MergeArguments>("merge", run_merge), make_command<InitArguments>("init", run_init),
       make_group("bench", kBenchHelp,
                  {make_command<BenchTrainArguments>("train", run_bench_train),
                   make_command<BenchDeviceArguments>("device", run_bench_device)}),
       devices_command(), read_command()},
      {argv + 1, argv + argc});
}
