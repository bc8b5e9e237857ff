#include "cli/config_command.h"

#include <ostream>

#include <CLI/CLI.hpp>

#include "config/print.h"

namespace dpo {

void add_run_words(CLI::App& command, config::Request& request) {
  command.add_option("KEY=VALUE", request.overrides,
                     "Choices of presets (model=pythia28 loss=dpo) and values (loss.beta=0.1 +new=1 ~key)");
  command.add_option("--config", request.config_file, "A YAML file with values, laid over the defaults");
  command.add_option("--config-dir", request.config_dirs,
                     "A folder with config.yaml, model/NAME.yaml, loss/NAME.yaml of your own; may be repeated")
      ->allow_extra_args(false);
}

void add_config_options(CLI::App& command, ConfigOptions& options) {
  add_run_words(command, options.request);
  const auto json = command.add_flag("--json", options.json, "Print the values as JSON, without their origins");
  const auto defaults =
      command.add_flag("--defaults", options.defaults, "Print configs/config.yaml as the schema defines it");
  const auto markdown =
      command.add_flag("--markdown", options.markdown, "Print docs/configuration.md: every key with its meaning");
  json->excludes(defaults)->excludes(markdown);
  defaults->excludes(markdown);
}

void run_config(const ConfigOptions& options, std::ostream& out, std::ostream& notes) {
  if (options.defaults) {
    out << config::default_config_yaml();
  } else if (options.markdown) {
    out << config::configuration_markdown();
  } else {
    const config::Resolved resolved = config::compose(options.request);
    for (const std::string& note : resolved.notes) notes << "note: " << note << "\n";
    out << (options.json ? config::to_json(resolved) + "\n" : config::to_yaml(resolved));
  }
}

}  // namespace dpo
