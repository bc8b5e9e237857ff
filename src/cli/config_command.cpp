#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "config/print.h"

namespace dpo::cli {
namespace {

struct ConfigArguments {
  config::Request request;
  bool json = false;
  bool defaults = false;
  bool markdown = false;
};

int print_config(const ConfigArguments& arguments) {
  if (arguments.defaults) {
    fmt::print("{}", config::default_config_yaml());
  } else if (arguments.markdown) {
    fmt::print("{}", config::configuration_markdown());
  } else {
    const config::Resolved resolved = config::compose(arguments.request);
    print_notes(resolved.notes);
    fmt::print("{}", arguments.json ? config::to_json(resolved) + "\n" : config::to_yaml(resolved));
  }
  return 0;
}

}  // namespace

void add_config_command(CLI::App& program, Action& action) {
  CLI::App& command =
      *program.add_subcommand("config", "the resolved configuration, each value with its origin");
  const auto arguments = std::make_shared<ConfigArguments>();
  add_run_arguments(command, arguments->request);
  const auto json = command.add_flag("--json", arguments->json, "the values as JSON, without their origins");
  const auto defaults =
      command.add_flag("--defaults", arguments->defaults, "configs/config.yaml as the schema defines it");
  const auto markdown =
      command.add_flag("--markdown", arguments->markdown, "docs/configuration.md: every key explained");
  json->excludes(defaults)->excludes(markdown);
  defaults->excludes(markdown);
  command.callback([&command, &action, arguments] {
    arguments->request.overrides = overrides_of(command);
    action = [arguments] { return print_config(*arguments); };
  });
}

}  // namespace dpo::cli
