// Downloads from the Hugging Face hub: what a command names, and neither this machine nor the cache has.
#pragma once

#include <filesystem>
#include <string>

#include "config/run_config.h"
#include "hub/fetch.h"

namespace dpo::commands {

// Shows progress and notes on stderr.
hub::Listener shown_downloads();

// A model or tokenizer that a command's argument names.
void fetch_model(const std::string& name_or_path, hub::Need need);

// The folder of a tokenizer that a command's argument names; downloaded if it is a name and not in the cache.
std::filesystem::path tokenizer_folder_of(const std::string& name_or_path);

// What a plan of a run needs: the model's config.json, unless its sizes are built in.
void fetch_for_plan(const config::RunConfig& run, const hub::Listener& listener);

// The commits of all that a run reads from the hub, beside those that are known already.
hub::Commits find_commits(const config::RunConfig& run, hub::Commits known, const hub::Listener& listener);

void fetch_tokenizer(const config::RunConfig& run, const hub::Listener& listener);
void fetch_data(const config::RunConfig& run, const hub::Listener& listener);

// The weights that a run starts from; only config.json if they come from elsewhere (model.archive, or a
// checkpoint).
void fetch_weights(const config::RunConfig& run, bool from_elsewhere, const hub::Listener& listener);

}  // namespace dpo::commands
