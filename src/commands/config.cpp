#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/help.h"
#include "config/explain.h"
#include "config/print.h"

namespace dpo::commands {
namespace {

struct ConfigArguments {
  config::Request request;
  bool json = false;
  bool defaults = false;
  bool markdown = false;
  std::vector<std::string> keys;  // arguments without '=': keys and sections to explain

  bool is_bare() const {
    return request.overrides.empty() && !request.config_file && request.config_dirs.empty() && !json;
  }
};

int explain_keys(const ConfigArguments& arguments) {
  if (arguments.json)
    throw UserError(fmt::format("--json shows a run's values and does not explain '{}': remove one of them",
                                arguments.keys.front()));
  config::Request request = arguments.request;
  request.not_needed = config::required_keys();
  const config::Resolved resolved = config::compose(request);
  print_notes(resolved.notes);
  for (const std::string& key : arguments.keys)
    fmt::print("{}{}", &key == &arguments.keys.front() ? "" : "\n", config::explain(key, resolved));
  return 0;
}

int print_config(const ConfigArguments& arguments) {
  if ((arguments.defaults || arguments.markdown) && !(arguments.keys.empty() && arguments.is_bare()))
    throw UserError("--defaults and --markdown take no other arguments");
  if (arguments.defaults) {
    fmt::print("{}", config::default_config_yaml());
  } else if (arguments.markdown) {
    fmt::print("{}", config::configuration_markdown());
  } else if (!arguments.keys.empty()) {
    return explain_keys(arguments);
  } else if (arguments.is_bare()) {
    fmt::print("{}", config::all_keys_text());
  } else {
    const config::Resolved resolved = config::compose(arguments.request);
    print_notes(resolved.notes);
    fmt::print("{}", arguments.json ? config::to_json(resolved) + "\n" : config::to_yaml(resolved));
  }
  return 0;
}

// Returns true for lr and loss.beta, but not for lr=1 or ~lr.
bool is_name(const std::string& argument) {
  return argument.find('=') == std::string::npos && !argument.empty() && argument.front() != '~' &&
         argument.front() != '+';
}

int run_config(ConfigArguments arguments) {
  const std::vector<std::string> all = std::exchange(arguments.request.overrides, {});
  for (const std::string& argument : all)
    (is_name(argument) ? arguments.keys : arguments.request.overrides).push_back(argument);
  return print_config(arguments);
}

void describe(CLI::App& command, ConfigArguments& arguments) {
  command.description("list the configuration keys, explain one, or show a run's values");
  add_run_arguments(
      command, arguments.request,
      {{"dpo config                 # every key with its default and meaning",
        "dpo config loss.beta       # explain a key; 'dpo config loss' explains a section",
        "dpo config model=pythia28 loss=dpo loss.beta=0.1 exp_name=dpo   # a run's values and their sources"},
       "A run's values are printed as YAML that --config accepts."});
  command.formatter(help_format("[KEY=VALUE ...] [KEY ...]"));
  const auto json =
      command.add_flag("--json", arguments.json, "print a run's values as JSON, without their sources");
  const auto defaults = command.add_flag("--defaults", arguments.defaults,
                                         "print configs/config.yaml: every key with its default");
  const auto markdown =
      command.add_flag("--markdown", arguments.markdown, "print docs/configuration.md: every key explained");
  json->excludes(defaults)->excludes(markdown);
  defaults->excludes(markdown);
}

}  // namespace

Command config_command() { return make_command<ConfigArguments>("config", run_config); }

}  // namespace dpo::commands
