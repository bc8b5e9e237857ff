#include "commands/command.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/nearest.h"
#include "base/stop.h"
#include "base/user_path.h"
#include "config/explain.h"

namespace dpo::commands {
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

// CLI11 would only say that a subcommand is required.
void check_command(const CLI::App& program, const std::vector<std::string>& words) {
  std::vector<std::string> commands;
  for (const CLI::App* command : program.get_subcommands({})) commands.push_back(command->get_name());
  const std::string list = fmt::format("{}", fmt::join(commands, ", "));
  if (words.empty())
    throw UserError(fmt::format("no command: expected one of {} ('dpo --help' explains them)", list));
  const std::string& name = words.front();
  if (name.starts_with("-") || std::find(commands.begin(), commands.end(), name) != commands.end()) return;
  throw UserError(fmt::format("there is no command '{}', expected one of {}{}", name, list,
                              did_you_mean(name, commands)));
}

int parse_and_run(CLI::App& program, const Action& action, const std::vector<std::string>& arguments) {
  check_command(program, arguments);
  try {
    program.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 wants them reversed
  } catch (const CLI::ConversionError& error) {
    // "Could not convert: --gpus = x"
    std::string what = error.what();
    if (const std::size_t at = what.find(": "); at != std::string::npos) what = what.substr(at + 2);
    throw UserError(
        fmt::format("{}: cannot be read ('dpo {} --help' says what is expected)", what, arguments.front()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    throw UserError(error.what());
  }
  return action();
}

// Adds commands, of which one must be given.
Action add_commands(CLI::App& parent, const std::vector<Command>& commands) {
  std::map<const CLI::App*, Action> actions;
  for (const Command& command : commands) {
    CLI::App& added = *parent.add_subcommand(command.name);
    actions[&added] = command.add(added);
  }
  parent.require_subcommand(1);
  return [&parent, actions] { return actions.at(parent.get_subcommands().front())(); };
}

}  // namespace

Command make_group(std::string name, std::string help, std::vector<Command> commands) {
  return {std::move(name), [help = std::move(help), commands = std::move(commands)](CLI::App& command) {
            command.description(help);
            return add_commands(command, commands);
          }};
}

int run_program(CLI::App& program, const std::vector<Command>& commands,
                const std::vector<std::string>& arguments) {
  try {
    return parse_and_run(program, add_commands(program, commands), arguments);
  } catch (const UserError& error) {
    for (const std::string& problem : error.problems()) fmt::print(stderr, "error: {}\n", problem);
  } catch (const Stopped& stopped) {
    fmt::print(stderr, "{}\n", stopped.what());
    return kStopped;
  } catch (const std::exception& error) {
    fmt::print(stderr,
               "error: {} (this is a bug in dpo: please report it with the command and with what "
               "DPO_TRACE=1 adds)\n",
               message_of(error));
  }
  return kBadInput;
}

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

void add_dtype(CLI::App& command, std::string& dtype, const std::string& help) {
  command.add_option("--dtype", dtype, help)
      ->type_name("float32|bfloat16|float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}).description(""));
}

}  // namespace dpo::commands
