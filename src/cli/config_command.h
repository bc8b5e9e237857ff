#pragma once

#include <iosfwd>

#include "config/compose.h"

namespace CLI {
class App;
}

namespace dpo {

// The words of every command that takes a run's configuration: KEY=VALUE..., --config, --config-dir.
void add_run_words(CLI::App& command, config::Request& request);

// What `dpo config` prints.
struct ConfigOptions {
  config::Request request;
  bool json = false;
  bool defaults = false;  // configs/config.yaml
  bool markdown = false;  // docs/configuration.md
};

void add_config_options(CLI::App& command, ConfigOptions& options);

// Prints the configuration to `out` and notes about it to `notes`.
void run_config(const ConfigOptions& options, std::ostream& out, std::ostream& notes);

}  // namespace dpo
