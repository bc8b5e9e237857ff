// dpo-engine is the part of dpo that computes. This header declares one function per command, which takes the
// arguments in commands/commands.h.
#pragma once

#include "commands/commands.h"

namespace dpo::engine {

int run_train(const commands::TrainArguments& arguments);
int run_demo(const commands::DemoArguments& arguments);
int run_sample(const commands::SampleArguments& arguments);
int run_score(const commands::ScoreArguments& arguments);
int run_convert(const commands::ConvertArguments& arguments);
int run_merge(const commands::MergeArguments& arguments);
int run_init(const commands::InitArguments& arguments);
int run_bench_train(const commands::BenchTrainArguments& arguments);
int run_bench_device(const commands::BenchDeviceArguments& arguments);

// Commands that are not for users: `devices` is for 'dpo doctor', `read` for benchmarks/weights_read.py.
commands::Command devices_command();
commands::Command read_command();

}  // namespace dpo::engine
