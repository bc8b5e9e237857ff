// One function per command: it adds the command to the program and sets the action when it was chosen.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"

namespace dpo::cli {

void add_config_command(CLI::App& program, Action& action);
void add_plan_command(CLI::App& program, Action& action);
void add_data_command(CLI::App& program, Action& action);
void add_doctor_command(CLI::App& program, Action& action);
void add_tokenize_command(CLI::App& program, Action& action);

// Commands of dpo-engine: here their arguments are checked, and then dpo becomes that program, with the words
// of the command line as they are.
void add_convert_command(CLI::App& program, Action& action, const std::vector<std::string>& words);
void add_init_command(CLI::App& program, Action& action, const std::vector<std::string>& words);
void add_sample_command(CLI::App& program, Action& action, const std::vector<std::string>& words);
void add_bench_command(CLI::App& program, Action& action, const std::vector<std::string>& words);
void add_demo_command(CLI::App& program, Action& action, const std::vector<std::string>& words);
void add_train_command(CLI::App& program, Action& action, const std::vector<std::string>& words);
void add_score_command(CLI::App& program, Action& action, const std::vector<std::string>& words);

}  // namespace dpo::cli
