// dpo-engine: the commands that compute, linked with LibTorch. `dpo` starts it; see cli/engine.h.
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "cli/engine_commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace dpo::cli;
  // LibTorch then asks for huge pages: a step allocates and frees gigabytes, and small pages cost a fifth of
  // its time on a CPU. Read at the first allocation.
  ::setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);
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
