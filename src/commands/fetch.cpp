#include "commands/fetch.h"

#include <memory>
#include <mutex>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/stop.h"
#include "commands/commands.h"
#include "commands/progress.h"
#include "config/text.h"
#include "data/source.h"
#include "hub/cache.h"
#include "plan/architecture.h"

namespace dpo::commands {
namespace {

using hub::Need;
using hub::RepositoryKind;

struct FetchArguments {
  std::vector<std::string> names;
  bool small = false;
};

struct Target {
  hub::Repository repository;
  hub::Wanted wanted;
};

Target target_of(const std::string& name, bool small) {
  constexpr std::string_view kData = "datasets/";
  const bool prefixed = name.starts_with(kData);
  config::RunConfig run;
  run.datasets = {prefixed ? name.substr(kData.size()) : name};
  std::vector<data::HubDataSet> data_sets;
  if (prefixed || name.find('/') == std::string::npos)  // built-in data sets: hh, shp, se
    data_sets = data::hub_data_sets(run);
  const auto repository = data_sets.empty()
                              ? hub::parse_repository(RepositoryKind::Model, prefixed ? "" : name)
                              : hub::parse_repository(RepositoryKind::Dataset, data_sets.front().repository);
  if (!repository)
    throw UserError(
        fmt::format("'{}' is not a name on the Hugging Face hub; expected ORG/NAME, ORG/NAME@REVISION, "
                    "datasets/ORG/NAME, datasets/ORG/NAME:PART, hh, shp or se",
                    config::shown(name)));
  if (!data_sets.empty()) return {*repository, {Need::data, data_sets.front().choose}};
  return {*repository, {small ? Need::tokenizer : Need::weights}};
}

std::string tokenizer_name(const config::RunConfig& run) {
  return run.model.tokenizer_name_or_path.value_or(run.model.name_or_path);
}

// Returns the data sets that are not files or folders of this machine.
std::vector<data::HubDataSet> data_sets_of(const config::RunConfig& run) {
  std::vector<data::HubDataSet> data_sets = data::hub_data_sets(run);
  std::error_code none;
  std::erase_if(data_sets,
                [&](const data::HubDataSet& data) { return std::filesystem::exists(data.name, none); });
  return data_sets;
}

void describe(CLI::App& command, FetchArguments& arguments) {
  command.description("download models and data sets from the Hugging Face hub");
  command
      .add_option(
          "NAME", arguments.names,
          "model ORG/NAME, data set datasets/ORG/NAME, each with @REVISION if it is not the main branch, or "
          "hh, shp, se")
      ->type_name("")
      ->required();
  command.add_flag("--small", arguments.small, "download only config.json and the tokenizer of models");
  command.footer(
      "Examples:\n"
      "  dpo fetch EleutherAI/pythia-2.8b hh\n"
      "  dpo fetch EleutherAI/pythia-70m@step1000 datasets/ORG/NAME\n\n"
      "Files go to the Hugging Face cache, which the Python libraries use too (HF_HUB_CACHE, HF_HOME). Only\n"
      "files that dpo reads are downloaded: safetensors rather than .bin; for a data set its data files, or\n"
      "the hub's Parquet copy. Files that are already there are not downloaded again, and an interrupted\n"
      "download continues. Other commands download what they need by themselves, and use what is cached;\n"
      "'dpo fetch' also looks for a newer revision. Private and gated repositories need HF_TOKEN, or\n"
      "'hf auth login'. See docs/hub.md.");
}

int run_fetch(const FetchArguments& arguments) {
  std::vector<Target> targets;
  for (const std::string& name : arguments.names) targets.push_back(target_of(name, arguments.small));
  handle_stop_signals();
  const hub::Listener listener = shown_downloads();
  for (const Target& target : targets)
    fmt::print("{}\n", hub::fetch(target.repository, target.wanted, listener).string());
  return 0;
}

}  // namespace

hub::Listener shown_downloads() {
  struct Shown {
    ProgressLine line;
    std::mutex mutex;
  };
  const auto shown = std::make_shared<Shown>();
  return {[shown](const std::string& what, std::int64_t done, std::int64_t all) {
            const std::lock_guard lock(shown->mutex);
            shown->line.show(what, done, all, "bytes");
          },
          [shown](const std::string& note) {
            const std::lock_guard lock(shown->mutex);
            print_notes({note});
          }};
}

void fetch_model(const std::string& name_or_path, Need need) {
  hub::fetch_missing(RepositoryKind::Model, name_or_path, {need}, shown_downloads());
}

std::filesystem::path tokenizer_folder_of(const std::string& name_or_path) {
  fetch_model(name_or_path, Need::tokenizer);
  std::error_code none;
  const auto snapshot = hub::cached_snapshot(RepositoryKind::Model, name_or_path);
  return snapshot && !std::filesystem::exists(name_or_path, none) ? *snapshot
                                                                  : std::filesystem::path(name_or_path);
}

void fetch_for_plan(const config::RunConfig& run, const hub::Listener& listener) {
  if (!plan::is_built_in(run.model.name_or_path))
    hub::fetch_missing(RepositoryKind::Model, run.model.name_or_path, {Need::config}, listener);
}

hub::Commits find_commits(const config::RunConfig& run, hub::Commits known, const hub::Listener& listener) {
  std::vector<hub::Target> targets = {{RepositoryKind::Model, run.model.name_or_path, {Need::weights}},
                                      {RepositoryKind::Model, tokenizer_name(run), {Need::tokenizer}}};
  for (const data::HubDataSet& data : data_sets_of(run))
    targets.push_back({RepositoryKind::Dataset, data.repository, {Need::data, data.choose}});
  return hub::find_commits(targets, std::move(known), listener);
}

void fetch_tokenizer(const config::RunConfig& run, const hub::Listener& listener) {
  hub::fetch_missing(RepositoryKind::Model, tokenizer_name(run), {Need::tokenizer}, listener);
}

void fetch_data(const config::RunConfig& run, const hub::Listener& listener) {
  for (const data::HubDataSet& data : data_sets_of(run))
    hub::fetch_missing(RepositoryKind::Dataset, data.repository, {Need::data, data.choose}, listener);
}

void fetch_weights(const config::RunConfig& run, bool from_elsewhere, const hub::Listener& listener) {
  hub::fetch_missing(RepositoryKind::Model, run.model.name_or_path,
                     {from_elsewhere ? Need::config : Need::weights}, listener);
}

Command fetch_command() { return make_command<FetchArguments>("fetch", run_fetch); }

}  // namespace dpo::commands
