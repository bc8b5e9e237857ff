#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "model/tables/settings.h"

namespace dpo::run {

// What determines the numbers of a run, by name. A checkpoint records it, so that it is not resumed as
// another run. "null" stands for what the run does not have.
using Identity = std::map<std::string, std::string>;

// The keys whose effect is config::Effect::result, with their values.
Identity identity_of_keys(const config::RunConfig& config);

// The keys, tokenizer and data. `updates`: of the whole run; a decaying learning rate depends on it.
Identity identity_of(const config::RunConfig& config, const std::string& tokenizer,
                     const data::Examples& train, std::int64_t updates);
// The settings of the model's config.json; see model::describe.
Identity identity_of_architecture(const model::ModelConfig& config);
// Of the reference; see shard::fingerprint_of.
Identity identity_of_reference(const std::string& fingerprint);

// Of the frozen model of a run with an adapter, which its checkpoints do not contain.
Identity identity_of_base(const std::string& fingerprint);

// Throws a UserError if the adapter of a checkpoint was trained over another model than this. Does not
// compare weights that are in another dtype now.
void check_base(const Identity& saved, const model::ModelConfig& base, const std::string& fingerprint,
                const config::RunConfig& config, const std::filesystem::path& adapter);

// Throws a UserError that lists every difference, saved and now. Entries that `now` lacks are not compared,
// and a value that was not saved counts as the default. Returns notes about values that an older checkpoint
// did not record.
std::vector<std::string> check_identity(const Identity& saved, const Identity& now,
                                        const std::filesystem::path& checkpoint);

}  // namespace dpo::run
