#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/doctor.h"

namespace dpo::cli {

void add_doctor_command(CLI::App& program, Action& action) {
  CLI::App& command =
      *program.add_subcommand("doctor", "what was found on this machine, and what is missing");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "one JSON object instead of text");
  command.callback([&action, json] { action = [json] { return run_doctor(*json, std::cout); }; });
}

}  // namespace dpo::cli
