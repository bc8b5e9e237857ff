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

// Shows the progress of long work on stderr, in bytes; throws Stopped after a stop signal.
checkpoint::ProgressCallback shown_progress(const std::string& what);

at::ScalarType scalar_type_named(const std::string& name);  // float32, bfloat16, float16

// "GPT-2, 124,439,808 parameters, float32, 498 MB"
std::string summary_of(const checkpoint::LoadedModel& model);

// If the tokenizer's folder has a chat template, makes generation stop where it ends an answer
// (generation_config.json), with a note.
void add_answer_ends(checkpoint::LoadedModel& model, const std::filesystem::path& tokenizer);

// The notes about a model's weights, without those about settings that training ignores.
void print_weight_notes(const checkpoint::LoadedModel& model);

struct ReadyModel {
  model::Model model;
  model::Weights weights;
};

// Downloads the model and the tokenizer of a command, if they are names and not on this machine.
void fetch_models(const commands::ModelArguments& arguments);

// The folder of an adapter for a model, downloaded if it is a name and not on this machine. An adapter that
// cannot be used, or that is of another model, is a UserError; reads no weights.
std::filesystem::path find_adapter(const std::string& adapter, const std::string& model);

// The tokenizer of a command's model, or of its adapter if that has one. Quick: load it first, to find bad
// input before weights are read.
text::Tokenizer load_tokenizer(const commands::ModelArguments& arguments);

// The device called auto, cpu, cuda or cuda:N. A missing one is a UserError.
at::Device device_named(const std::string& name);

// Loads the weights, with progress and notes on stderr.
ReadyModel load_ready_model(const commands::ModelArguments& arguments);

// The model's config.json alone.
model::ModelConfig read_config(const commands::ModelArguments& arguments);

// The end-of-text tokens that the files of the model and of its adapter and the tokenizer name.
std::vector<text::Token> end_tokens(const commands::ModelArguments& arguments,
                                    const text::Tokenizer& tokenizer);

}  // namespace dpo::engine
