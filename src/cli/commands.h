// One function per command: it adds the command to the program and sets the action when it was chosen.
#pragma once

#include "cli/arguments.h"

namespace dpo::cli {

void add_config_command(CLI::App& program, Action& action);
void add_plan_command(CLI::App& program, Action& action);
void add_data_command(CLI::App& program, Action& action);
void add_doctor_command(CLI::App& program, Action& action);
void add_tokenize_command(CLI::App& program, Action& action);

}  // namespace dpo::cli
