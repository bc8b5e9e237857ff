#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "cli/model_arguments.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace dpo::cli {

struct ReadyModel {
  model::Model model;
  model::Weights weights;
};

// The tokenizer of a command's model: quick, so that bad input is found before weights are read.
text::Tokenizer load_tokenizer(const ModelArguments& arguments);

// The device that a name stands for: auto, cpu, cuda or cuda:N. One that is not there is a UserError.
at::Device device_named(const std::string& name);

// Loads the weights, telling stderr how far it is and what is worth knowing.
ReadyModel load_ready_model(const ModelArguments& arguments);

// The model's sizes alone.
model::ModelConfig read_config(const ModelArguments& arguments);

// The tokens that end a text, as the model's files and the tokenizer name them.
std::vector<text::Token> end_tokens(const ModelArguments& arguments, const text::Tokenizer& tokenizer);

}  // namespace dpo::cli
