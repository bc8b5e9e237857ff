#include "commands/command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/nearest.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/user_path.h"
#include "commands/help.h"
#include "config/key_hints.h"
#include "config/schema.h"
#include "config/text.h"
#include "config/value_hints.h"

namespace dpo::commands {
namespace {

// Returns the full name of a command, such as "dpo bench train".
std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent ? full_name(*parent) + " " + command.get_name() : command.get_name();
}

std::string hint_for_unknown(const CLI::App& program, const std::string& name,
                             const std::vector<std::string>& commands) {
  const std::string known = program.get_parent() ? "" : hint_for_command(name);
  return known.empty() ? did_you_mean(name, commands) : known;
}

// Reports a missing or unknown subcommand. CLI11 would only report that one is required.
void check_command(const CLI::App& program, std::span<const std::string> arguments) {
  std::vector<std::string> commands;
  for (const CLI::App* command : program.get_subcommands({})) commands.push_back(command->get_name());
  if (commands.empty()) return;
  if (arguments.empty())
    throw UserError(fmt::format("no command given, expected one of {} (see '{} --help')",
                                fmt::join(commands, ", "), full_name(program)));
  const std::string& name = arguments.front();
  if (program.get_option_no_throw(name)) return;  // --help
  if (std::ranges::find(commands, name) == commands.end())
    throw UserError(fmt::format("unknown {} '{}'{} (see '{} --help')",
                                name.starts_with("-") ? "option" : "command", name,
                                hint_for_unknown(program, name, commands), full_name(program)));
  check_command(*program.get_subcommand(name), arguments.subspan(1));
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  return options;
}

// Suggests the option that was meant by an unknown one. `next` is the argument after it.
std::string hint_for_option(const CLI::App& command, const std::string& option, const std::string& next) {
  const std::string name = option.substr(0, option.find('='));
  const std::vector<std::string> options = long_options(command);
  const bool lacks_dash = std::ranges::find(options, "-" + name) != options.end();
  const bool is_value = !next.starts_with("-") && next.find('=') == next.npos;
  if (command.get_allow_extras() && !lacks_dash)  // the command takes KEY=VALUE
    if (const std::string hint = config::did_you_mean_key_of_option(option, is_value ? next : "");
        !hint.empty())
      return hint;
  return did_you_mean(name, options);
}

std::vector<std::string> unknown_options(const CLI::App& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].starts_with("-"))
      problems.push_back(fmt::format(
          "unknown option '{}'{} (see '{} --help')", arguments[i],
          hint_for_option(command, arguments[i], i + 1 < arguments.size() ? arguments[i + 1] : ""),
          full_name(command)));
  return problems;
}

// Reports the arguments that the given command does not have (CLI11 calls them "not expected").
[[noreturn]] void refuse_arguments(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::vector<std::string> arguments = command->remaining();
  std::vector<std::string> problems = unknown_options(*command, arguments);
  if (problems.empty())  // otherwise they may be values of unknown options
    for (const std::string& argument : arguments)
      problems.push_back(
          fmt::format("unexpected argument '{}' (see '{} --help')", argument, full_name(*command)));
  throw UserError(problems);
}

// Rewrites CLI11's "--config: At Most 1 required but received 2".
std::string explain_mismatch(const std::string& what, const std::string& command) {
  const std::size_t at = what.find(": At Most 1 required");
  return at == what.npos
             ? what
             : fmt::format("{} is given more than once (see 'dpo {} --help')", what.substr(0, at), command);
}

// Replaces CLI11's words between two options, as in "--tokens requires --order".
std::string in_plain_words(const std::string& what, std::string_view words, std::string_view plain) {
  const std::size_t at = what.find(words);
  return at == what.npos
             ? what
             : fmt::format(fmt::runtime(plain), what.substr(0, at), what.substr(at + words.size()));
}

// Converts 'dpo help COMMAND' to 'dpo COMMAND --help'.
std::vector<std::string> without_help(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  std::erase(arguments, "help");  // also handles 'dpo help help'
  arguments.emplace_back("--help");
  return arguments;
}

int parse_and_run(CLI::App& program, const Action& action, const std::vector<std::string>& arguments) {
  check_command(program, arguments);
  try {
    program.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them reversed
  } catch (const CLI::ConversionError& error) {
    // Strips the prefix of "Could not convert: --gpus = x".
    std::string what = error.what();
    if (const std::size_t at = what.find(": "); at != std::string::npos) what = what.substr(at + 2);
    throw UserError(fmt::format("invalid value: {} (see 'dpo {} --help')", what, arguments.front()));
  } catch (const CLI::ExtrasError&) {
    refuse_arguments(program);
  } catch (const CLI::ArgumentMismatch& error) {
    throw UserError(explain_mismatch(error.what(), arguments.front()));
  } catch (const CLI::ExcludesError& error) {
    throw UserError(in_plain_words(error.what(), " excludes ", "{} cannot be given together with {}"));
  } catch (const CLI::RequiresError& error) {
    throw UserError(in_plain_words(error.what(), " requires ", "{} is given without {}, which it needs"));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    throw UserError(error.what());
  }
  return action();
}

int act(CLI::App& program, const Action& action, std::vector<std::string> arguments,
        const std::vector<std::string>& first_steps) {
  if (!arguments.empty() || first_steps.empty())
    return parse_and_run(program, action, without_help(std::move(arguments)));
  fmt::print("{}", first_screen(program, first_steps));
  return 0;
}

// Returns true if the argument is a configuration file that was given without --config.
bool is_yaml_file(const std::string& argument) {
  std::error_code none;
  return (argument.ends_with(".yaml") || argument.ends_with(".yml")) &&
         std::filesystem::is_regular_file(argument, none);
}

// Adds commands, one of which is required.
Action add_commands(CLI::App& parent, const std::vector<Command>& commands) {
  std::map<const CLI::App*, Action> actions;
  for (const Command& command : commands) {
    CLI::App& added = *parent.add_subcommand(command.name)->group("Commands");
    actions[&added] = command.add(added);
  }
  parent.require_subcommand(1);
  const std::string name = full_name(parent);
  parent.footer(parent.get_parent() ? fmt::format("'{} COMMAND --help' explains a command.", name)
                                    : fmt::format("'{} help COMMAND' explains a command.", name));
  return [&parent, actions] { return actions.at(parent.get_subcommands().front())(); };
}

void print_bug(const std::exception& error) {
  print_error(message_of(error) +
              " (this is a bug in dpo: please report it with the command and its output under DPO_TRACE=1)");
}

}  // namespace

Command make_group(std::string name, std::string help, std::vector<Command> commands) {
  return {std::move(name), [help = std::move(help), commands = std::move(commands)](CLI::App& command) {
            command.description(help);
            return add_commands(command, commands);
          }};
}

int run_program(CLI::App& program, const std::vector<Command>& commands, std::vector<std::string> arguments,
                const std::vector<std::string>& first_steps) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond 'ulimit -f' then fails like on a full disk
  program.set_help_flag("-h,--help", "print this help and exit");
  program.formatter(help_format(""));
  try {
    const int status = act(program, add_commands(program, commands), std::move(arguments), first_steps);
    // Flushes the buffer, because a full disk is only noticed when it is written.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    print_error(fmt::format("cannot write all of the output ({})", std::strerror(errno)));
    return status == 0 ? kBadInput : status;
  } catch (const UserError& error) {
    for (const std::string& problem : error.problems()) print_error(problem);
  } catch (const Stopped& stopped) {
    Terminal::get().clear();
    Terminal::get().print(stopped.what());
    return kStopped;
  } catch (const std::filesystem::filesystem_error& error) {  // is also a std::system_error
    print_bug(error);
  } catch (const std::system_error& error) {  // thrown by fmt::print to stdout
    print_error(fmt::format("cannot write all of the output ({})", error.code().message()));
  } catch (const std::exception& error) {
    print_bug(error);
  }
  return kBadInput;
}

void add_run_arguments(CLI::App& command, config::Request& request, RunHelp help) {
  takes_path(command.add_option("--config", request.config_file, "YAML file with configuration values"))
      ->type_name("FILE");
  takes_path(
      command.add_option("--config-dir", request.config_dirs, "folder with your own presets, searched first"))
      ->type_name("DIR")
      ->allow_extra_args(false);
  // KEY=VALUE is not a positional option, because CLI11 would split [a,b].
  command.allow_extras();
  command.formatter(help_format("[KEY=VALUE ...]"));
  command.footer([help = std::move(help)] { return help_of_keys(help); });
}

CLI::Option* takes_path(CLI::Option* option) {
  if (option->get_positional()) option->type_name("");  // the help shows only its name
  return option->transform(expand_home);
}

CLI::Option* at_least_one(CLI::Option* option) {
  return option->check(
      [](const std::string& text) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool is_whole = error == std::errc() && end == text.data() + text.size();
        return is_whole && value >= 1
                   ? ""
                   : fmt::format("expected a whole number of at least 1, got {}", config::shown(text));
      },
      "");
}

CLI::Option* takes_one_of(CLI::Option* option, const std::vector<std::string>& names) {
  return option->type_name(fmt::format("{}", fmt::join(names, "|")))
      ->check(
          [names, key = option->get_name()](const std::string& text) {
            return std::ranges::find(names, text) != names.end()
                       ? ""
                       : fmt::format("expected one of {}, got {}{}", fmt::join(names, ", "),
                                     config::shown(text), config::hint_for_value(key, text, names));
          },
          "");
}

std::vector<std::string> overrides_of(const CLI::App& command) {
  const std::vector<std::string> arguments = command.remaining();
  std::vector<std::string> problems = unknown_options(command, arguments);
  if (problems.empty())  // otherwise they may be values of unknown options
    for (const std::string& argument : arguments)
      if (is_yaml_file(argument))
        problems.push_back(fmt::format("{0} is a file: write --config {0}", argument));
  if (!problems.empty()) throw UserError(problems);
  return arguments;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) Terminal::get().print("note: " + note);
}

void print_error(const std::string& message) {
  Terminal& terminal = Terminal::get();
  terminal.clear();
  terminal.print((terminal.has_colours() ? "\033[31merror:\033[0m " : "error: ") + message);
}

void add_dtype(CLI::App& command, std::string& dtype, const std::string& help) {
  takes_one_of(command.add_option("--dtype", dtype, help), config::find_field("model.policy_dtype")->choices);
}

void add_gguf_options(CLI::App& command, std::string& dtype, bool& modelfile, const std::string& fallback) {
  std::vector<std::string> choices = config::find_field("model.policy_dtype")->choices;
  choices.insert(choices.end(), {"q8_0", "q4_0"});
  CLI::Option* const option = command.add_option(
      "--dtype", dtype,
      fmt::format("dtype to write (default: {}); f32, bf16 and f16 are other names, q8_0 and "
                  "q4_0 are for GGUF",
                  fallback));
  takes_one_of(option->transform([](const std::string& name) {
    if (name == "f32") return std::string("float32");
    if (name == "f16") return std::string("float16");
    return name == "bf16" ? std::string("bfloat16") : name;
  }),
               choices);
  command.add_flag("--modelfile", modelfile,
                   "with GGUF: also write Modelfile next to it, for 'ollama create'");
}

bool is_gguf(const std::string& path) {
  std::string type = std::filesystem::path(path).extension().string();
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type == ".gguf";
}

}  // namespace dpo::commands
