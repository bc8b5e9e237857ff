#pragma once

#include <string>

namespace CLI {
class App;
}

namespace dpo::cli {

// What every command that computes with a model takes.
struct ModelArguments {
  std::string model;
  std::string weights;    // empty: those in the model's folder
  std::string tokenizer;  // empty: the model's folder
  std::string device = "auto";
  std::string dtype;  // empty: what the device suggests
};

void describe_model(CLI::App& command, ModelArguments& arguments);

}  // namespace dpo::cli
