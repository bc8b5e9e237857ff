#pragma once

#include <cstdint>

#include "cli/arguments.h"

namespace dpo::cli {

struct BenchArguments {
  config::Request request;
  std::int64_t updates = 5;
  bool json = false;
};

// The command `bench` and its part `train`; returns the latter.
CLI::App& describe_bench(CLI::App& command, BenchArguments& arguments);

}  // namespace dpo::cli
