#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace dpo::cli {

struct InitArguments {
  std::string config;
  std::string out;
  std::uint64_t seed = 0;
  std::string dtype;
};

void describe_init(CLI::App& command, InitArguments& arguments);

}  // namespace dpo::cli
