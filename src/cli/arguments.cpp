#include "cli/arguments.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "base/user_path.h"
#include "config/explain.h"

namespace dpo::cli {

namespace {

// CLI11 does not know of words that are left to us.
class UsageWithKeys : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* command, std::string name) const override {
    constexpr std::string_view kOptions = "[OPTIONS]";
    std::string usage = CLI::Formatter::make_usage(command, std::move(name));
    if (const std::size_t at = usage.find(kOptions); at != std::string::npos)
      usage.insert(at + kOptions.size(), " [KEY=VALUE ...]");
    return usage;
  }
};

std::string help_of_keys(const RunHelp& help) {
  std::string out =
      "Keys of the configuration are set by words KEY=VALUE, as Hydra has them: lr=1e-6, loss.beta=0.1,\n"
      "datasets=[hh,my.jsonl], model=pythia28 (a preset). Quote a word whose [ ] or { } the shell would "
      "take.\n"
      "\nThe keys that matter most, and their defaults:\n" +
      config::main_keys_text() +
      "All keys: 'dpo config', or docs/configuration.md; one of them: 'dpo config KEY'.\n\nExamples:\n";
  for (const std::string& example : help.examples) out += "  " + example + "\n";
  if (!help.notes.empty()) out += "\n" + help.notes;
  return out;
}

}  // namespace

void add_run_arguments(CLI::App& command, config::Request& request, RunHelp help) {
  takes_path(command.add_option("--config", request.config_file,
                                "a configuration of your own, laid over the defaults"))
      ->type_name("FILE");
  takes_path(command.add_option("--config-dir", request.config_dirs,
                                "a folder with presets of your own, searched first"))
      ->type_name("DIR")
      ->allow_extra_args(false);
  // Not a positional option: the values ([a,b], {a: b}, ~key) are ours to read, word by word.
  command.allow_extras();
  command.formatter(std::make_shared<UsageWithKeys>());
  command.footer([help = std::move(help)] { return help_of_keys(help); });
}

CLI::Option* takes_path(CLI::Option* option) { return option->transform(expand_home); }

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
