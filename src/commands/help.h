// Help pages, the first screen, and answers to commands of other programs.
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

// The form of the help of a program and its commands. `takes_keys`: KEY=VALUE arguments are in the usage
// line.
std::shared_ptr<CLI::FormatterBase> help_format(bool takes_keys);

// The end of the help of a command that takes KEY=VALUE.
std::string help_of_keys(const RunHelp& help);

// Returns what a program without a command prints: these commands, and how to see the others.
std::string first_screen(const CLI::App& program, const std::vector<std::string>& commands);

// "; 'dpo sample MODEL --chat' talks with a model", for a command that other trainers have; otherwise empty.
std::string hint_for_command(std::string_view name);

}  // namespace dpo::commands
