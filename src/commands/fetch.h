// Downloads the models and data named by a command from the Hugging Face hub if they are missing here.
#pragma once

#include <filesystem>
#include <string>

#include "config/run_config.h"
#include "hub/fetch.h"

namespace dpo::commands {

// Returns a listener that shows progress and notes on stderr.
hub::Listener shown_downloads();

// Downloads a model or tokenizer that a command's argument names.
void fetch_model(const std::string& name_or_path, hub::Need need);

// Returns the folder of a tokenizer that a command's argument names, downloaded if it is a name that is not
// cached.
std::filesystem::path tokenizer_folder_of(const std::string& name_or_path);

// Downloads what a plan of a run needs: the model's config.json, unless its sizes are built in.
void fetch_for_plan(const config::RunConfig& run, const hub::Listener& listener);

// Returns the commits of everything that a run reads from the hub, including those in `known`.
hub::Commits find_commits(const config::RunConfig& run, hub::Commits known, const hub::Listener& listener);

void fetch_tokenizer(const config::RunConfig& run, const hub::Listener& listener);
void fetch_data(const config::RunConfig& run, const hub::Listener& listener);

// Downloads the weights that a run starts from, or only config.json if the weights come from elsewhere
// (model.archive or a checkpoint).
void fetch_weights(const config::RunConfig& run, bool from_elsewhere, const hub::Listener& listener);

}  // namespace dpo::commands
