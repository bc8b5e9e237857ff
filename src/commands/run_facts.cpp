#include "commands/run_facts.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_json.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "base/user_path.h"
#include "base/utf8.h"
#include "config/compose.h"
#include "config/explain.h"
#include "config/print.h"
#include "config/schema.h"
#include "data/source.h"
#include "hub/cache.h"
#include "plan/architecture.h"
#include "report/metric_log.h"
#include "report/run_files.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json value_of(const json& tree, const std::string& key) {
  std::string pointer = "/" + key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  const json::json_pointer at(pointer);
  return tree.contains(at) ? tree[at] : json();
}

// Returns the names that plan.json of a run records, or nullopt without it.
HubNames hub_names_of(const fs::path& run) {
  if (report::read_object(run / "plan.json").is_null()) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [name, commit] : commits_of(run)) names.insert(name);
  return names;
}

// Returns ORG/NAME for a name that a run used, or "" if it may also have been a folder. The name of a data
// set may end in :PART.
std::string name_on_the_hub(hub::RepositoryKind kind, const std::string& name, const HubNames& names) {
  const std::string whole = name.substr(0, name.find(':'));
  const auto repository = hub::parse_repository(kind, whole);
  if (!repository) return "";
  const bool built_in = kind == hub::RepositoryKind::Model && plan::is_built_in(repository->id);
  const bool known = names ? built_in || names->contains(hub::fetch_name(*repository))
                           : hub::may_be_on_the_hub(whole) && (built_in || hub::cached_snapshot(kind, whole));
  return known ? repository->id : "";
}

// Formats a text as the value of an override.
std::string override_text(const std::string& text, const HubNames& names) {
  const std::string shown = without_folders(text, names);
  const auto plain = [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || c == '/' || c == '-' || c == '.' || c == '_' ||
           c == '@';
  };
  if (!shown.empty() && std::ranges::all_of(shown, plain) && !json::accept(shown)) return shown;
  std::string quoted = "'";
  for (const char c : shown) quoted += c == '\'' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return quoted + "'";
}

std::string override_value(const json& value, const HubNames& names) {
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const json& item : value) parts.push_back(override_value(item, names));
    return fmt::format("[{}]", fmt::join(parts, ","));
  }
  if (value.is_object()) {
    for (const auto& [name, item] : value.items())
      parts.push_back(fmt::format("{}: {}", override_text(name, names), override_value(item, names)));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return value.is_string() ? override_text(value.get<std::string>(), names) : value.dump();
}

using Settings = std::vector<std::pair<std::string, std::string>>;

// Returns the keys that affect the result and differ from the loss's defaults, in the form that 'dpo train'
// takes.
Settings changed_keys(const config::Resolved& resolved, const HubNames& names) {
  config::Request defaults;
  defaults.overrides = {"loss=" + name_of(resolved.values.loss.name)};
  defaults.not_needed = config::required_keys();
  const json usual = json::parse(config::to_json(config::compose(defaults)));
  const json used = json::parse(config::to_json(resolved));
  Settings changed;
  for (const config::Field& field : config::schema()) {
    if (field.effect == config::Effect::local) continue;
    if (const json value = value_of(used, field.key); value != value_of(usual, field.key))
      changed.emplace_back(field.key, override_value(value, names));
  }
  return changed;
}

Settings settings_of(const config::RunConfig& run, const Settings& changed, std::int64_t examples,
                     std::int64_t updates, const HubNames& names) {
  Settings settings = {{"loss", name_of(run.loss.name)}};
  for (const auto& [key, value] : changed)
    if (key.starts_with("loss.")) settings.emplace_back(key, value);
  const auto add = [&](const char* name, const std::string& value) { settings.emplace_back(name, value); };
  add("optimizer", name_of(run.optimizer));
  add("learning rate", fmt::format("{}", run.lr));
  add("schedule",
      fmt::format("{}, {} of warm-up", name_of(run.lr_schedule), plural(run.warmup_steps, "update")));
  add("batch size", fmt::format("{}", run.batch_size));
  if (updates > 0) {
    add("examples", fmt::format("{}", examples));
    add("updates", fmt::format("{}", updates));
  }
  add("max_length", fmt::format("{}", run.max_length));
  add("max_prompt_length", fmt::format("{}", run.max_prompt_length));
  add("max_grad_norm", run.max_grad_norm ? fmt::format("{}", *run.max_grad_norm) : "null (no clipping)");
  add("weights stored as", name_of(run.model.policy_dtype));
  if (run.model.fsdp_policy_mp) add("computed in", name_of(run.model.fsdp_policy_mp));
  if (run.adapter.name != config::Adapter::none)
    add("LoRA", fmt::format("r {}, alpha {}{}, of {}", run.adapter.r, run.adapter.alpha,
                            run.adapter.dora ? ", DoRA" : "", fmt::join(run.adapter.targets, ", ")));
  if (run.chat_template) add("chat template", without_folders(*run.chat_template, names));
  add("seed", fmt::format("{}", run.seed));
  return settings;
}

void add_data(const config::RunConfig& config, const HubNames& names, report::CardRun& run) {
  for (const std::string& name : config.datasets) {
    run.data.push_back(without_folders(name, names));
    config::RunConfig alone = config;
    alone.datasets = {name};
    for (const data::HubDataSet& data : data::hub_data_sets(alone)) {
      const bool built_in = name.find('/') == name.npos;  // hh, shp or se
      const std::string id =
          built_in ? data.repository : name_on_the_hub(hub::RepositoryKind::Dataset, data.repository, names);
      if (!id.empty()) run.datasets.push_back(id);
    }
  }
}

}  // namespace

std::string without_folders(const std::string& path, const HubNames& names) {
  const bool is_on_the_hub = !name_on_the_hub(hub::RepositoryKind::Model, path, names).empty() ||
                             !name_on_the_hub(hub::RepositoryKind::Dataset, path, names).empty();
  if (path.find('/') == path.npos || is_on_the_hub) return path;
  const fs::path whole = fs::path(path).lexically_normal();
  const fs::path last = whole.has_filename() ? whole : whole.parent_path();
  const std::string name = last.filename().string();
  const bool is_checkpoint = name == kLatest || name == kBest || name.starts_with("step-");
  return is_checkpoint ? "RUN/" + name : name;
}

config::Resolved read_run_config(const fs::path& run) {
  config::Request request;
  request.config_file = run / "config.yaml";
  request.interpolates = false;
  return config::compose(request);
}

hub::Commits commits_of(const fs::path& run) try {
  const json plan = report::read_object(run / "plan.json");
  return plan.is_object() ? plan.value("commits", hub::Commits{}) : hub::Commits{};
} catch (const json::exception&) {
  return {};
}

std::string tracked_config(const config::Resolved& resolved, const hub::Commits& commits) {
  auto shown = nlohmann::ordered_json::parse(config::to_json(resolved));
  if (!commits.empty()) shown["commits"] = commits;
  return shown.dump();
}

report::CardRun read_keys(const fs::path& run, const KeyFacts& given) {
  const config::Resolved resolved = read_run_config(run);
  const config::RunConfig& config = resolved.values;
  const HubNames names = hub_names_of(run);
  report::CardRun facts;
  facts.examples = given.examples;
  facts.updates = given.updates;
  facts.loss = name_of(config.loss.name);
  facts.base_model = given.base_model.empty()
                         ? name_on_the_hub(hub::RepositoryKind::Model, config.model.name_or_path, names)
                         : given.base_model;
  facts.base =
      facts.base_model.empty() ? without_folders(config.model.name_or_path, names) : facts.base_model;
  if (config.model.archive) facts.weights = without_folders(*config.model.archive, names);
  if (config.best_metric) facts.chosen_by = name_of(*config.best_metric);
  add_data(config, names, facts);
  const Settings changed = changed_keys(resolved, names);
  facts.settings = settings_of(config, changed, facts.examples, facts.updates, names);
  std::vector<std::string> command = {"dpo", "train", "loss=" + facts.loss,
                                      "exp_name=" + override_text(given.exp_name, names)};
  for (const auto& [key, value] : changed) command.push_back(key + "=" + value);
  facts.command = shell_command(command);
  return facts;
}

report::CardRun read_run(const fs::path& run, const fs::path& checkpoint, const std::string& base_model,
                         const std::string& exp_name, std::vector<std::string>& notes) {
  const json state = parse_json(read_text_file(checkpoint / "state" / "run.json", "the state of the run"));
  const auto count = [&](const char* name) {
    return state.is_object() && state.contains(name) && state[name].is_number_integer()
               ? state[name].get<std::int64_t>()
               : 0;
  };
  report::CardRun facts = read_keys(run, {count("examples"), count("updates"), base_model, exp_name});
  if (facts.base_model.empty())
    notes.push_back(
        fmt::format("the card does not link the model that the run started from: '{}' is not known to be on "
                    "the hub; --base-model ORG/NAME names it",
                    facts.base));
  std::error_code none;
  if (!fs::equivalent(run / kBest, checkpoint, none)) facts.chosen_by.clear();
  if (fs::exists(run / "metrics.jsonl", none)) {
    const report::MetricLog log(run / "metrics.jsonl");
    facts.evaluations = report::evaluations_of(log, static_cast<double>(facts.examples));
    facts.eval_examples = report::evaluated_examples(log);
  }
  return facts;
}

}  // namespace dpo::commands
