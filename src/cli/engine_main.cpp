// dpo-engine: the commands that compute, linked with LibTorch. `dpo` starts it; see cli/engine.h.
#include <algorithm>
#include <cstdlib>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include "cli/engine_commands.h"
#include "cli/program.h"
#include "hardware/processor.h"

int main(int argc, char** argv) {
  using namespace dpo::cli;
  // LibTorch then asks for huge pages: a step allocates and frees gigabytes, and small pages cost a fifth of
  // its time on a CPU. Read at the first allocation.
  ::setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);
  // LibTorch knows the machine's cores, and not the quota of a container, beyond which threads only wait.
  if (!std::getenv("OMP_NUM_THREADS"))
    at::set_num_threads(std::min(at::get_num_threads(), dpo::hardware::find_processor().threads()));
  CLI::App engine("The part of dpo that computes; dpo starts it. Call dpo, and see dpo --help.",
                  "dpo-engine");
  engine.require_subcommand(1);
  Action action;
  add_engine_devices(engine, action);
  add_engine_convert(engine, action);
  add_engine_init(engine, action);
  add_engine_read(engine, action);
  add_engine_sample(engine, action);
  add_engine_score(engine, action);
  add_engine_train(engine, action);
  add_engine_bench(engine, action);
  add_engine_demo(engine, action);
  return run_program(engine, action, {argv + 1, argv + argc});
}
