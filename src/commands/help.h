// Prints help pages, the first screen, and hints for commands of other programs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace dpo::commands {

struct RunHelp;

// Returns the formatter for the help of a program and its commands. The usage line shows `extras` after the
// options: arguments that CLI11 does not know, such as "[KEY=VALUE ...]".
std::shared_ptr<CLI::FormatterBase> help_format(std::string extras);

// Returns the end of the help of a command that takes KEY=VALUE.
std::string help_of_keys(const RunHelp& help);

// Returns what a program prints without a command: these commands, and how to list the others.
std::string first_screen(const CLI::App& program, const std::vector<std::string>& commands);

// Returns "; 'dpo sample MODEL --chat' talks with a model" for a command of other trainers, otherwise "".
std::string hint_for_command(std::string_view name);

}  // namespace dpo::commands
