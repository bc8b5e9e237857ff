#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace dpo::cli {

struct DemoArguments {
  std::string folder = "dpo-demo";
  std::uint64_t seed = 0;
  bool json = false;
};

void describe_demo(CLI::App& command, DemoArguments& arguments);

}  // namespace dpo::cli
