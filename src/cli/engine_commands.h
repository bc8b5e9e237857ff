// One function per command of dpo-engine. Each adds the command with the arguments that the command of dpo
// has, since dpo passes its words on as they are.
#pragma once

#include "cli/arguments.h"

namespace dpo::cli {

void add_engine_devices(CLI::App& engine, Action& action);
void add_engine_demo(CLI::App& engine, Action& action);
void add_engine_convert(CLI::App& engine, Action& action);
void add_engine_init(CLI::App& engine, Action& action);
void add_engine_read(CLI::App& engine, Action& action);
void add_engine_sample(CLI::App& engine, Action& action);
void add_engine_score(CLI::App& engine, Action& action);
void add_engine_bench(CLI::App& engine, Action& action);
void add_engine_train(CLI::App& engine, Action& action);

}  // namespace dpo::cli
