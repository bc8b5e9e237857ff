#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/load.h"

namespace dpo::engine {

// Writes the folder `out`: a model with an adapter merged into its weights. First compares the
// log-probabilities of both forms. `dtype` is that of the written weights, or "" for the model's own.
checkpoint::LoadedModel merge(const std::string& model, const std::filesystem::path& adapter,
                              const std::filesystem::path& out, const std::string& dtype = "");

}  // namespace dpo::engine
