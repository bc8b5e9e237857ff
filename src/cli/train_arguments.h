#pragma once

#include "cli/arguments.h"

namespace dpo::cli {

struct TrainArguments {
  config::Request request;
};

void describe_train(CLI::App& command, TrainArguments& arguments);

}  // namespace dpo::cli
