#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace dpo::cli;
  const std::vector<std::string> words(argv + 1, argv + argc);
  CLI::App program("Preference optimization of language models: SFT, then DPO and its relatives.", "dpo");
  program.set_version_flag("--version", DPO_VERSION);
  program.require_subcommand(1);
  Action action;
  add_demo_command(program, action, words);
  add_train_command(program, action, words);
  add_plan_command(program, action);
  add_config_command(program, action);
  add_data_command(program, action);
  add_doctor_command(program, action);
  add_tokenize_command(program, action);
  add_convert_command(program, action, words);
  add_init_command(program, action, words);
  add_sample_command(program, action, words);
  add_score_command(program, action, words);
  add_bench_command(program, action, words);
  return run_program(program, action, words);
}
