#include "cli/arguments.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/nearest.h"

namespace dpo::cli {

void add_run_arguments(CLI::App& command, config::Request& request) {
  command.add_option("--config", request.config_file, "a configuration of your own, laid over the defaults")
      ->type_name("FILE");
  command
      .add_option("--config-dir", request.config_dirs, "a folder with presets of your own, searched first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  // Not a positional option: the values ([a,b], {a: b}, ~key) are ours to read, word by word.
  command.allow_extras();
  command.footer("KEY=VALUE words set keys of the configuration (docs/configuration.md, or 'dpo config').");
}

std::vector<std::string> overrides_of(const CLI::App& command) {
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  std::vector<std::string> problems;
  std::vector<std::string> words;
  for (const std::string& word : command.remaining()) {
    if (word.starts_with("-"))
      problems.push_back(fmt::format(
          "unknown option '{}' of 'dpo {}'{} ('dpo {} --help' lists them)", word, command.get_name(),
          did_you_mean(word.substr(0, word.find('=')), options), command.get_name()));
    else
      words.push_back(word);
  }
  if (!problems.empty()) throw UserError(problems);
  return words;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
}

}  // namespace dpo::cli
