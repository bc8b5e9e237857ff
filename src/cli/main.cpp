#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"

namespace {

constexpr int kBadInput = 1;

int run(int argc, char** argv) {
  CLI::App program("Preference optimization of language models: SFT, then DPO and its relatives.", "dpo");
  program.set_version_flag("--version", DPO_VERSION);
  program.require_subcommand(1);
  dpo::cli::Action action;
  dpo::cli::add_plan_command(program, action);
  dpo::cli::add_config_command(program, action);
  dpo::cli::add_doctor_command(program, action);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 prints help to stdout with code 0, mistakes to stderr with codes of its own.
    return program.exit(error) == 0 ? 0 : kBadInput;
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
