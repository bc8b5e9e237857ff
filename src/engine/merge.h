#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/load.h"

namespace dpo::engine {

// Writes the folder `out`, a model with an adapter merged into its weights, after the log-probabilities of
// both forms were compared. `dtype`: of the weights to write; empty: the model's own.
checkpoint::LoadedModel merge(const std::string& model, const std::filesystem::path& adapter,
                              const std::filesystem::path& out, const std::string& dtype = "");

}  // namespace dpo::engine
