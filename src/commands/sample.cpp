#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {
namespace {

void describe_prompts(CLI::App& command, SampleArguments& arguments) {
  command.add_option("--prompt", arguments.prompts, "a text to continue; can be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  takes_path(command.add_option("--prompts", arguments.prompt_file,
                                R"(a file of prompts: lines {"prompt": TEXT}, or plain lines; - is stdin)"))
      ->type_name("FILE");
  command.add_flag("--special", arguments.special,
                   "put what the tokenizer has for it (BOS and the like) around prompts, unlike training");
}

void describe_choice(CLI::App& command, SampleArguments& arguments) {
  command.add_flag("--greedy", arguments.greedy, "always take the most likely token");
  command
      .add_option("--temperature", arguments.temperature, "divides the logits (default: 1; 0 is --greedy)")
      ->type_name("T");
  command.add_option("--top-k", arguments.top_k, "only the K most likely tokens")->type_name("K");
  command.add_option("--top-p", arguments.top_p, "only the most likely tokens that together reach P")
      ->type_name("P");
  command
      .add_option("--min-p", arguments.min_p, "only tokens at least P times as likely as the most likely one")
      ->type_name("P");
  command
      .add_option("--repetition-penalty", arguments.repetition_penalty,
                  "above 1, makes tokens less likely that the prompt or the text has already")
      ->type_name("X");
  command.add_option("--seed", arguments.seed, "of the random numbers (default: 0)")->type_name("N");
}

}  // namespace

void describe(CLI::App& command, SampleArguments& arguments) {
  command.description("generate text from prompts");
  describe(command, arguments.model);
  describe_prompts(command, arguments);
  command.add_option("--max-new-tokens", arguments.max_new_tokens, "the longest text (default: 256)")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""));
  describe_choice(command, arguments);
  command.add_option("--samples", arguments.samples, "texts for each prompt (default: 1)")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""));
  command.add_option("--stop", arguments.stops, "end a text before this string; can be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_option("--batch", arguments.batch, "texts that are written at once (default: 32)")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""));
  command.add_flag("--json", arguments.json,
                   R"(a line {"prompt", "sample", "text", "tokens", "finish"} for each text)");
  // For benchmarks/model_speed.py.
  command.add_flag("--time", arguments.time, "print to stderr how long computing took")->group("");
  command.footer("Without prompts: on a terminal, type one after the other; otherwise the lines of stdin.");
}

}  // namespace dpo::commands
