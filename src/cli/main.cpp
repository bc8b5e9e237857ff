#include <algorithm>
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/commands.h"

namespace {

constexpr int kBadInput = 1;

// CLI11 would only say that a subcommand is required.
void check_command(const CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> commands;
  for (const CLI::App* command : program.get_subcommands({})) commands.push_back(command->get_name());
  const std::string list = fmt::format("{}", fmt::join(commands, ", "));
  if (arguments.empty())
    throw dpo::UserError(fmt::format("no command: expected one of {} ('dpo --help' explains them)", list));
  const std::string& name = arguments.front();
  if (name.starts_with("-") || std::find(commands.begin(), commands.end(), name) != commands.end()) return;
  throw dpo::UserError(fmt::format("there is no command '{}', expected one of {}{}", name, list,
                                   dpo::did_you_mean(name, commands)));
}

int run(int argc, char** argv) {
  CLI::App program("Preference optimization of language models: SFT, then DPO and its relatives.", "dpo");
  program.set_version_flag("--version", DPO_VERSION);
  program.require_subcommand(1);
  dpo::cli::Action action;
  dpo::cli::add_plan_command(program, action);
  dpo::cli::add_config_command(program, action);
  dpo::cli::add_data_command(program, action);
  dpo::cli::add_doctor_command(program, action);
  dpo::cli::add_tokenize_command(program, action);
  check_command(program, {argv + 1, argv + argc});
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    throw dpo::UserError(error.what());
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const dpo::UserError& error) {
    for (const std::string& problem : error.problems()) fmt::print(stderr, "error: {}\n", problem);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {} (this is a bug of dpo: please report it with the command)\n", error.what());
  }
  return kBadInput;
}
