#include "cli/program.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "base/stop.h"
#include "cli/exit_status.h"

namespace dpo::cli {
namespace {

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

int parse_and_run(CLI::App& program, const Action& action, const std::vector<std::string>& words) {
  check_command(program, words);
  try {
    program.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the end
  } catch (const CLI::ConversionError& error) {
    // "Could not convert: --gpus = x"
    std::string what = error.what();
    if (const std::size_t at = what.find(": "); at != std::string::npos) what = what.substr(at + 2);
    throw UserError(
        fmt::format("{}: cannot be read ('dpo {} --help' says what is expected)", what, words.front()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    throw UserError(error.what());
  }
  return action();
}

}  // namespace

int run_program(CLI::App& program, const Action& action, const std::vector<std::string>& words) {
  try {
    return parse_and_run(program, action, words);
  } catch (const UserError& error) {
    for (const std::string& problem : error.problems()) fmt::print(stderr, "error: {}\n", problem);
  } catch (const Stopped& stopped) {
    fmt::print(stderr, "{}\n", stopped.what());
    return kStopped;
  } catch (const std::exception& error) {
    fmt::print(stderr,
               "error: {} (this is a bug of dpo: please report it with the command, and with "
               "what DPO_TRACE=1 adds)\n",
               message_of(error));
  }
  return kBadInput;
}

}  // namespace dpo::cli
