#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/load.h"
#include "commands/commands.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace dpo::engine {

// Shows on stderr how many megabytes of something long are done, and throws Stopped when a signal came.
checkpoint::ProgressCallback shown_progress(const std::string& what);

at::ScalarType scalar_type_named(const std::string& name);  // float32, bfloat16, float16

// "GPT-2, 124,439,808 parameters, float32, 498 MB"
std::string summary_of(const checkpoint::LoadedModel& model);

struct ReadyModel {
  model::Model model;
  model::Weights weights;
};

// The tokenizer of a command's model: quick, so that bad input is found before weights are read.
text::Tokenizer load_tokenizer(const commands::ModelArguments& arguments);

// The device that a name stands for: auto, cpu, cuda or cuda:N. One that is not there is a UserError.
at::Device device_named(const std::string& name);

// Loads the weights, telling stderr how far it is and what is worth knowing.
ReadyModel load_ready_model(const commands::ModelArguments& arguments);

// The model's sizes alone.
model::ModelConfig read_config(const commands::ModelArguments& arguments);

// The tokens that end a text, as the model's files and the tokenizer name them.
std::vector<text::Token> end_tokens(const commands::ModelArguments& arguments,
                                    const text::Tokenizer& tokenizer);

}  // namespace dpo::engine
