#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/load.h"
#include "commands/commands.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace dpo::engine {

// Returns a callback that shows the progress of long work in bytes on stderr. It throws Stopped after a stop
// signal.
checkpoint::ProgressCallback shown_progress(const std::string& what);

at::ScalarType scalar_type_named(const std::string& name);  // float32, bfloat16, float16

// "GPT-2, 124,439,808 parameters, float32, 498 MB"
std::string summary_of(const checkpoint::LoadedModel& model);

// Makes generation stop where the chat template ends an answer (generation_config.json), and prints a note.
// Does nothing if the tokenizer's folder has no chat template.
void add_answer_ends(checkpoint::LoadedModel& model, const std::filesystem::path& tokenizer);

// Prints the notes about a model's weights, except those about settings that training ignores.
void print_weight_notes(const checkpoint::LoadedModel& model);

struct ReadyModel {
  model::Model model;
  model::Weights weights;
};

// Downloads the model and the tokenizer of a command if they are hub names that are not on this machine.
void fetch_models(const commands::ModelArguments& arguments);

// Returns the folder of an adapter for a model, downloaded if it is a hub name that is not on this machine.
// Throws a UserError if the adapter cannot be used or was made for another model. Reads no weights.
std::filesystem::path find_adapter(const std::string& adapter, const std::string& model);

// Loads the tokenizer of a command's model, or of its adapter if that has one. It is quick, so load it first
// to find bad input before weights are read.
text::Tokenizer load_tokenizer(const commands::ModelArguments& arguments);

// Returns the device named auto, cpu, cuda or cuda:N. Throws a UserError if it is missing.
at::Device device_named(const std::string& name);

// Loads the weights, with progress and notes on stderr.
ReadyModel load_ready_model(const commands::ModelArguments& arguments);

// Reads only the model's config.json.
model::ModelConfig read_config(const commands::ModelArguments& arguments);

// Returns the end-of-text tokens named by the tokenizer and by the files of the model and its adapter.
std::vector<text::Token> end_tokens(const commands::ModelArguments& arguments,
                                    const text::Tokenizer& tokenizer);

}  // namespace dpo::engine
