#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "config/run_config.h"
#include "data/examples.h"

namespace dpo::run {

// What decides the numbers of a run, by name. A checkpoint remembers it, so that it is not continued as
// another run. "null" stands for what the run does not have.
using Identity = std::map<std::string, std::string>;

// `updates`: of the whole run, which a falling learning rate follows.
Identity identity_of(const config::RunConfig& config, const std::string& tokenizer,
                     const data::Examples& train, std::int64_t updates);
// Of the frozen model; see shard::fingerprint_of.
Identity identity_of_reference(const std::string& dtype, const std::string& fingerprint);

// A UserError with every difference, its value then and now. What `now` does not name is not compared.
void check_identity(const Identity& saved, const Identity& now, const std::filesystem::path& checkpoint);

}  // namespace dpo::run
