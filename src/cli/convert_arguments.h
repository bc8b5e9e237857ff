#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace dpo::cli {

struct ConvertArguments {
  std::string in;
  std::string out;
  std::string config;
  std::string dtype;
  std::uint64_t shard_bytes = 5'000'000'000;
};

void describe_convert(CLI::App& command, ConvertArguments& arguments);

}  // namespace dpo::cli
