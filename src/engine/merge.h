#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/load.h"

namespace dpo::engine {

// A model with an adapter merged into its weights.
struct MergedModel {
  checkpoint::LoadedModel model;
  at::ScalarType stored{};          // dtype of the model's files
  std::filesystem::path tokenizer;  // folder with the tokenizer: the adapter's if it has one
};

// Merges an adapter into a model, after comparing the log-probabilities of both forms. `dtype` is that of the
// merged weights, or "" for the model's own.
MergedModel merged_model(const std::string& model, const std::filesystem::path& adapter,
                         const std::string& dtype);

// Writes the merged model as the folder `out`.
checkpoint::LoadedModel merge(const std::string& model, const std::filesystem::path& adapter,
                              const std::filesystem::path& out, const std::string& dtype = "");

}  // namespace dpo::engine
