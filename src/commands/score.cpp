#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, ScoreArguments& arguments) {
  command.description("compute log-probabilities of responses, and rewards against a reference");
  describe(command, arguments.model);
  takes_path(
      command.add_option(
          "FILE", arguments.file,
          R"(rows as training reads them, such as {"prompt", "chosen", "rejected"} or {"messages"}, or )"
          R"({"prompt", "responses": [R, ...]}; - for JSON lines from stdin)"))
      ->required();
  takes_path(command.add_option("--reference", arguments.reference,
                                "reference model; adds rewards (an adapter: merge it first)"))
      ->type_name("MODEL");
  command.add_option("--beta", arguments.beta, "rewards are BETA * (logp - reference logp) (default: 0.1)")
      ->type_name("BETA");
  at_least_one(
      command.add_option("--batch-tokens", arguments.batch_tokens, "batch size, in tokens (default: 8192)"))
      ->type_name("N");
  const auto limit = [&](const char* name, std::optional<std::int64_t>& value, const char* help) {
    return at_least_one(command.add_option(name, value, help))->type_name("N");
  };
  CLI::Option* const length = limit("--max-length", arguments.max_length,
                                    "truncate prompt and response to N tokens together, as training does "
                                    "(default: longer input is an error)");
  CLI::Option* const prompt_length = limit("--max-prompt-length", arguments.max_prompt_length,
                                           "truncate the prompt to N tokens if --max-length is exceeded");
  length->needs(prompt_length);
  prompt_length->needs(length);
  takes_one_of(command.add_option(
                   "--truncation", arguments.truncation,
                   "which part of a long prompt to keep (default: keep_start; keep_end for conversations)"),
               {"keep_start", "keep_end"});
  command
      .add_option("--columns", arguments.columns,
                  "name of a column in FILE, such as prompt=question; none ignores it (repeatable)")
      ->type_name("NAME=COLUMN")
      ->allow_extra_args(false);
  describe(command, arguments.rendering);
  // Used by benchmarks/model_speed.py.
  command.add_flag("--time", arguments.time, "print to stderr how long computing took")->group("");
  command.footer(
      R"(Prints a line {"logps": [...], "tokens": [...]} for each row of FILE: the summed log-probability of
each response, with its end-of-text token (in conversations, its end of turn), and the number of tokens in
the sum. In conversations only the assistant's tokens are in the sum. With --reference, also "rewards".)");
}

}  // namespace dpo::commands
