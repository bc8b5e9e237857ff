#include <limits>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "commands/commands.h"

namespace dpo::commands {

void describe(CLI::App& command, ChatArguments& arguments) {
  takes_path(
      command.add_option("--chat-template", arguments.chat_template,
                         "chat template: chatml, zephyr, plain, a Jinja file, or one of the tokenizer's "
                         "named templates (default: the tokenizer's own)"))
      ->type_name("NAME|FILE");
  command
      .add_option("--template-kwargs", arguments.kwargs,
                  "variable of the chat template, such as enable_thinking=false (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  takes_path(
      command.add_option("--tools", arguments.tools, "JSON file with a list of tools for the chat template"))
      ->type_name("FILE");
}

std::map<std::string, std::string> pairs_of(const std::string& option,
                                            const std::vector<std::string>& given) {
  std::map<std::string, std::string> pairs;
  for (const std::string& pair : given) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw UserError(fmt::format("{} {}: expected KEY=VALUE", option, pair));
    pairs[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return pairs;
}

config::RunConfig chat_settings(const ChatArguments& arguments) {
  config::RunConfig settings;
  if (!arguments.chat_template.empty()) settings.chat_template = arguments.chat_template;
  settings.chat_template_kwargs = pairs_of("--template-kwargs", arguments.kwargs);
  if (!arguments.tools.empty()) settings.data.tools = arguments.tools;
  settings.max_length = std::numeric_limits<std::int64_t>::max();
  return settings;
}

}  // namespace dpo::commands
