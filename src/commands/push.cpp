#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/stop.h"
#include "base/user_path.h"
#include "commands/commands.h"
#include "commands/fetch.h"
#include "commands/run_facts.h"
#include "config/text.h"
#include "data/end_of_turn.h"
#include "hub/needed_files.h"
#include "hub/push.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

struct PushArguments {
  std::string source, name, revision, card, base_model;
  bool best = false, is_private = false, dry_run = false, overwrite_card = false, replace = false;
};

// The folder with the model to push, and the run that it belongs to, if any.
struct Model {
  fs::path folder;
  fs::path run;  // "" if none
};

bool has_run(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "config.yaml", none) && fs::exists(folder / "metrics.jsonl", none);
}

Model find_model(const PushArguments& arguments) {
  std::error_code none;
  const fs::path given = arguments.source;
  if (!fs::is_directory(given, none))
    throw UserError(fmt::format("'{}' is not a folder; expected a run, a checkpoint of one, or a model",
                                config::shown(arguments.source)));
  const bool is_run = fs::exists(given / kLatest, none) || has_run(given);
  if (arguments.best && !is_run)
    throw UserError(fmt::format("--best: {} is not the folder of a run", given.string()));
  const fs::path link = is_run ? given / (arguments.best ? kBest : kLatest) : given;
  if (!fs::is_directory(link, none))
    throw UserError(arguments.best ? fmt::format("--best: {} has no {}; the key best_metric makes it",
                                                 given.string(), kBest)
                                   : fmt::format("{} has no checkpoint yet", given.string()));
  const fs::path folder = canonical_in_run(link);
  const bool is_checkpoint = folder.filename().string().starts_with("step-") && has_run(folder.parent_path());
  if (is_checkpoint && !fs::exists(folder / "COMPLETE", none))
    throw UserError(fmt::format("{} is not a complete checkpoint: it has no file COMPLETE", folder.string()));
  return {folder, is_checkpoint ? folder.parent_path() : fs::path()};
}

// Returns the hashes in the marker of a checkpoint, or null for other folders.
nlohmann::json files_in_marker(const fs::path& folder) {
  std::error_code none;
  if (!fs::exists(folder / "COMPLETE", none)) return {};
  const auto marker = parse_json(read_text_file(folder / "COMPLETE", "a checkpoint's marker"));
  return marker.is_object() && marker.contains("files") ? marker["files"] : nlohmann::json();
}

std::vector<hub::HubFile> files_in(const fs::path& folder) {
  std::vector<hub::HubFile> files;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied))
    if (entry.is_regular_file())
      files.push_back({entry.path().lexically_relative(folder).generic_string(),
                       static_cast<std::int64_t>(entry.file_size()), ""});
  return files;
}

// Reads a file that may have been changed. Returns nullopt if its hash is not the marker's, which push()
// reports.
std::optional<std::string> intact_text(const hub::LocalFile& file) {
  std::string text = read_text_file(file.file, "the model's configuration", std::size_t{1} << 30);
  Sha256 hash;
  hash.add(text);
  if (!file.sha256.empty() && to_hex(hash.finish()) != file.sha256) return std::nullopt;
  return text;
}

hub::LocalFile text_file(const std::string& path, std::string text) {
  const auto size = static_cast<std::int64_t>(text.size());
  return {.path = path, .text = std::move(text), .size = size};
}

// Rewrites config.json and tokenizer_config.json without the name of the folder that the model was loaded
// from, which some versions of transformers add.
void remove_origin(hub::LocalFile& file) {
  const auto text = intact_text(file);
  auto json = parse_json<nlohmann::ordered_json>(text.value_or(""));
  if (!json.is_object() || json.erase("_name_or_path") + json.erase("name_or_path") == 0) return;
  file = text_file(file.path, json.dump(2) + "\n");
}

// Makes generation stop where the chat template ends an answer, if there is a template.
void add_answer_ends(std::vector<hub::LocalFile>& files, const fs::path& folder,
                     std::vector<std::string>& notes) {
  std::string problem;
  const auto ends = data::answer_ends(folder, problem);
  if (!problem.empty())
    notes.push_back(fmt::format("{} is pushed as it is, since it is not known how an answer ends: {}",
                                text::kGenerationConfig, problem));
  if (!ends) return;
  const auto found = std::ranges::find(files, text::kGenerationConfig, &hub::LocalFile::path);
  const auto before = found == files.end() ? "" : intact_text(*found);
  if (!before) return;
  std::error_code none;
  const fs::path config = folder / "config.json";
  const std::string after = text::with_ends(
      *before, fs::exists(config, none) ? read_text_file(config, "the model's configuration") : "", *ends);
  if (after == *before) return;
  notes.push_back(
      fmt::format("{} is pushed with eos_token_id [{}], so that generation stops at the end of a turn",
                  text::kGenerationConfig, fmt::join(text::eos_ids(after), ", ")));
  if (found == files.end())
    files.push_back(text_file(text::kGenerationConfig, after));
  else
    *found = text_file(text::kGenerationConfig, after);
}

// Rewrites adapter_config.json with the hub name of the adapter's model, because others cannot use a local
// folder.
void name_base(hub::LocalFile& file, const std::string& base_model) {
  auto json = parse_json<nlohmann::ordered_json>(read_text_file(file.file, "the adapter's configuration"));
  if (!json.is_object()) throw UserError(fmt::format("{}: not a JSON object", file.file.string()));
  constexpr const char* kBase = "base_model_name_or_path";
  const std::string base =
      json.contains(kBase) && json[kBase].is_string() ? json[kBase].get<std::string>() : std::string();
  std::error_code none;
  if (base_model.empty() && hub::may_be_on_the_hub(base) && !fs::exists(base, none)) return;
  if (base_model.empty())
    throw UserError(
        fmt::format("the model of this adapter is '{}', a folder of this machine, which others do not have: "
                    "--base-model ORG/NAME names it on the hub; or 'dpo merge {} {} OUT' makes a whole model",
                    base, base, file.file.parent_path().string()));
  json[kBase] = base_model;
  file = text_file(file.path, json.dump(2) + "\n");
}

// Returns only the files of the model or adapter, without optimizer state and files of the run.
std::vector<hub::LocalFile> model_files(const fs::path& folder, const std::string& base_model) {
  std::error_code none;
  const auto has = [&](const std::string& name) { return fs::exists(folder / name, none); };
  const auto read = [&](const std::string& name) {
    return has(name) ? read_text_file(folder / name, "the model's weights", std::size_t{1} << 30) : "";
  };
  if (!has("config.json") && !is_adapter(folder))
    throw UserError(
        fmt::format("{} has no config.json, so it is not a Hugging Face model; 'dpo convert' makes one{}",
                    folder.string(), run_folder_hint(folder)));
  const std::vector<std::string> weights = hub::weight_files(has, read);
  if (weights.empty()) throw UserError(fmt::format("{} has no model.safetensors", folder.string()));
  for (const std::string& name : weights)
    if (!has(name))
      throw UserError(fmt::format("{} names {}, which is missing", (folder / weights[0]).string(), name));
  const nlohmann::json marked = files_in_marker(folder);
  std::vector<hub::LocalFile> files;
  for (const hub::HubFile& file : hub::needed_files(files_in(folder), {hub::Need::weights}, read)) {
    const nlohmann::json entry =
        marked.is_object() && marked.contains(file.path) ? marked[file.path] : nlohmann::json();
    files.push_back({.path = file.path,
                     .file = folder / file.path,
                     .size = file.size,
                     .sha256 = entry.is_object() ? entry.value("sha256", "") : ""});
    if (file.path == "config.json" || file.path == "tokenizer_config.json") remove_origin(files.back());
    if (file.path == kAdapterConfig) name_base(files.back(), base_model);
  }
  return files;
}

hub::LocalFile card_of(const PushArguments& arguments, const hub::Repository& repository, const Model& model,
                       std::vector<std::string>& notes) {
  std::error_code none;
  std::string text;
  if (!arguments.card.empty()) {
    text = read_text_file(arguments.card, "the model card");
  } else {
    report::CardFacts facts{.repository = repository.id, .revision = repository.revision};
    facts.is_adapter = is_adapter(model.folder);
    facts.has_chat_template = fs::exists(model.folder / "chat_template.jinja", none);
    const std::string name = repository.id.substr(repository.id.find('/') + 1);
    if (!model.run.empty())
      facts.run = read_run(model.run, model.folder, arguments.base_model, name, notes);
    else
      notes.push_back(
          fmt::format("{} is not a checkpoint of a run, so the card says nothing about its training; "
                      "--card FILE takes your own",
                      model.folder.string()));
    text = report::model_card(facts);
  }
  return text_file("README.md", std::move(text));
}

hub::Repository repository_of(const PushArguments& arguments) {
  auto repository = hub::parse_repository(hub::RepositoryKind::Model, arguments.name);
  if (repository && !arguments.revision.empty())
    repository = hub::parse_repository(hub::RepositoryKind::Model,
                                       fmt::format("{}@{}", repository->id, arguments.revision));
  if (!repository || repository->id.find('/') == std::string::npos)
    throw UserError(
        fmt::format("'{}' is not a name that a model can have on the hub; expected ORG/NAME or "
                    "ORG/NAME@BRANCH, where ORG is your account or an organization",
                    config::shown(arguments.name)));
  if (hub::is_commit(repository->revision))
    throw UserError(fmt::format("cannot push to the commit {}: expected a branch", repository->revision));
  if (!arguments.base_model.empty() &&
      (!hub::is_repository_name(arguments.base_model) || arguments.base_model.find('/') == std::string::npos))
    throw UserError(fmt::format("--base-model: '{}' is not a name on the hub; expected ORG/NAME",
                                config::shown(arguments.base_model)));
  return *repository;
}

void describe(CLI::App& command, PushArguments& arguments) {
  command.description("upload a model to the Hugging Face hub, with a model card written from its run");
  takes_path(command.add_option("RUN", arguments.source,
                                "folder of a run (its newest checkpoint), of a checkpoint, or of a model"))
      ->required();
  command.add_option("NAME", arguments.name, "ORG/NAME or ORG/NAME@BRANCH; created if it is missing")
      ->type_name("")
      ->required();
  command.add_flag("--best", arguments.best, "the run's best checkpoint (BEST) instead of its newest");
  command.add_flag("--private", arguments.is_private,
                   "create a private repository, and push only if it is private");
  command.add_option("--revision", arguments.revision, "branch, the same as ORG/NAME@BRANCH")
      ->type_name("BRANCH");
  command.add_flag("--dry-run", arguments.dry_run, "list the files, print the card, and send nothing");
  takes_path(
      command.add_option("--card", arguments.card, "your own model card, which replaces the one on the hub"))
      ->type_name("FILE");
  command
      .add_option(
          "--base-model", arguments.base_model,
          "hub name of the model that the run or the adapter is based on, if they name it by a local folder")
      ->type_name("ORG/NAME");
  command.add_flag("--overwrite-card", arguments.overwrite_card,
                   "replace a README.md on the hub that dpo did not generate, or that was edited");
  command.add_flag("--replace", arguments.replace, "replace a model on the hub that dpo did not push");
  command.footer(
      "Examples:\n"
      "  dpo push RUN ORG/NAME --dry-run > card.md\n"
      "  dpo push RUN ORG/NAME --private\n"
      "  dpo push RUN ORG/NAME --card card.md\n\n"
      "Pushes weights, tokenizer, chat template and model card in one commit, never the optimizer's state\n"
      "or data. Needs a token that may write: HF_TOKEN, or 'hf auth login'. Files that the hub already has\n"
      "are not sent again, so the same command continues an interrupted push. See docs/hub.md.");
}

int run_push(const PushArguments& arguments) {
  const hub::Repository repository = repository_of(arguments);
  const Model model = find_model(arguments);
  std::vector<hub::LocalFile> files = model_files(model.folder, arguments.base_model);
  std::vector<std::string> notes;
  add_answer_ends(files, model.folder, notes);
  files.push_back(card_of(arguments, repository, model, notes));
  print_notes(notes);
  std::int64_t all = 0;
  for (const hub::LocalFile& file : files) all += file.size;
  if (arguments.dry_run) {
    for (const hub::LocalFile& file : files)
      fmt::print(stderr, "{:>9}  {}\n", file_size(file.size), file.path);
    fmt::print(stderr, "{:>9}  in all, from {}; nothing was sent\n", file_size(all), model.folder.string());
    fmt::print("{}", files.back().text);
    return 0;
  }
  handle_stop_signals();
  hub::PushOptions options{.is_private = arguments.is_private,
                           .replaces_model = arguments.replace,
                           .replaces_any_card = arguments.overwrite_card || !arguments.card.empty(),
                           .summary = "Upload model with dpo push",
                           .is_generated = report::is_model_card,
                           .is_unchanged = report::is_unchanged_card};
  // The summary names the checkpoint only within a run, because other folder names are specific to this
  // machine.
  if (!model.run.empty()) options.summary += fmt::format(" ({})", model.folder.filename().string());
  try {
    const hub::Pushed pushed = hub::push(repository, std::move(files), options, shown_downloads());
    if (pushed.files == 0 && pushed.removed == 0)
      fmt::print(stderr, "{} is already up to date\n", to_string(repository));
    else
      fmt::print(stderr, "pushed {} to {}; {} of large files sent\n",
                 plural(static_cast<std::int64_t>(pushed.files), "file"), to_string(repository),
                 file_size(pushed.sent));
    fmt::print("{}\n", pushed.commit.url);
  } catch (const Stopped&) {
    print_notes({"large files that have arrived stay on the hub: run the command again to continue"});
    throw;
  }
  return 0;
}

}  // namespace

Command push_command() { return make_command<PushArguments>("push", run_push); }

}  // namespace dpo::commands
