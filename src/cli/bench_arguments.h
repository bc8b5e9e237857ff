#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.h"

namespace dpo::cli {

struct BenchArguments {
  config::Request request;
  std::int64_t updates = 5;
  std::string output;  // of `device`
  bool json = false;
};

// The command `bench` in its parts.
struct BenchCommands {
  CLI::App& train;
  CLI::App& device;
};
BenchCommands describe_bench(CLI::App& command, BenchArguments& arguments);

}  // namespace dpo::cli
