#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "model/spec/settings.h"

namespace dpo::run {

// Everything that determines the numbers of a run, by name. A checkpoint records it, so that it is not
// resumed as a different run. "null" stands for anything the run does not have.
using Identity = std::map<std::string, std::string>;

// Returns the keys whose effect is config::Effect::result, with their values.
Identity identity_of_keys(const config::RunConfig& config);

// Returns the identity of keys, tokenizer and data. `updates` is the count for the whole run, because a
// decaying learning rate depends on it.
Identity identity_of(const config::RunConfig& config, const std::string& tokenizer,
                     const data::Examples& train, std::int64_t updates);
// Returns the settings in the model's config.json; see model::describe.
Identity identity_of_architecture(const model::ModelConfig& config);
// Returns the identity of the reference; see shard::fingerprint_of.
Identity identity_of_reference(const std::string& fingerprint);

// Returns the identity of an adapter run's frozen model, which its checkpoints do not contain.
Identity identity_of_base(const std::string& fingerprint);

// Throws a UserError if the adapter of a checkpoint was trained on a different base model. Weights whose
// dtype differs from the recorded one are not compared.
void check_base(const Identity& saved, const model::ModelConfig& base, const std::string& fingerprint,
                const config::RunConfig& config, const std::filesystem::path& adapter);

// Throws a UserError that lists every difference between `saved` and `now`. Entries that `now` lacks are not
// compared, and a value that was not saved counts as the default. Returns notes about values that an older
// checkpoint did not record.
std::vector<std::string> check_identity(const Identity& saved, const Identity& now,
                                        const std::filesystem::path& checkpoint);

}  // namespace dpo::run
