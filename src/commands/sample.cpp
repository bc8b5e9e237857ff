#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {
namespace {

void describe_prompts(CLI::App& command, SampleArguments& arguments) {
  command.add_option("--prompt", arguments.prompts, "prompt to continue (repeatable)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  takes_path(
      command.add_option("--prompts", arguments.prompt_file,
                         R"(file of prompts: lines {"prompt": TEXT}, or plain lines; with --chat also )"
                         R"({"messages": [...]} and {"prompt": [...]}; - for stdin)"))
      ->type_name("FILE");
  command.add_flag("--special", arguments.special,
                   "add the tokenizer's special tokens (BOS and others) to prompts, unlike training");
}

void describe_choice(CLI::App& command, SampleArguments& arguments) {
  command.add_flag("--greedy", arguments.greedy, "always take the most likely token");
  command
      .add_option("--temperature", arguments.temperature, "sampling temperature (default: 1; 0 is --greedy)")
      ->type_name("T");
  command.add_option("--top-k", arguments.top_k, "sample from the K most likely tokens")->type_name("K");
  command
      .add_option("--top-p", arguments.top_p,
                  "sample from the most likely tokens that together reach probability P")
      ->type_name("P");
  command
      .add_option("--min-p", arguments.min_p,
                  "sample from tokens at least P times as likely as the most likely one")
      ->type_name("P");
  command
      .add_option("--repetition-penalty", arguments.repetition_penalty,
                  "above 1: make tokens that have occurred in prompt or text less likely (default: 1)")
      ->type_name("X");
  command.add_option("--seed", arguments.seed, "random seed (default: 0)")->type_name("N");
}

void describe_chat(CLI::App& command, SampleArguments& arguments) {
  CLI::Option* const chat = command.add_flag("--chat", arguments.chat,
                                             "talk with the model: prompts are messages of a conversation");
  command.add_option("--system", arguments.system, "system message of conversations that have none")
      ->type_name("TEXT");
  describe(command, arguments.rendering);
  for (const char* option : {"--system", "--chat-template", "--template-kwargs", "--tools"})
    command.get_option(option)->needs(chat);
  chat->excludes(command.get_option("--special"));  // the template writes BOS itself
}

}  // namespace

void describe(CLI::App& command, SampleArguments& arguments) {
  command.description("generate text from prompts, or talk with a model");
  describe(command, arguments.model);
  describe_prompts(command, arguments);
  describe_chat(command, arguments);
  at_least_one(command.add_option("--max-new-tokens", arguments.max_new_tokens,
                                  "maximum number of tokens to generate (default: 256)"))
      ->type_name("N");
  describe_choice(command, arguments);
  at_least_one(command.add_option("--samples", arguments.samples, "samples per prompt (default: 1)"))
      ->type_name("N");
  command.add_option("--stop", arguments.stops, "stop before this string (repeatable)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  at_least_one(command.add_option("--batch", arguments.batch, "batch size, in samples (default: 32)"))
      ->type_name("N");
  command.add_flag("--json", arguments.json,
                   R"(print a line {"prompt", "sample", "text", "tokens", "finish"} for each sample; )"
                   R"(with --chat also "messages", answer included)");
  // Used by benchmarks/model_speed.py.
  command.add_flag("--time", arguments.time, "print to stderr how long computing took")->group("");
  command.footer(
      "Without --prompt and --prompts, each line of stdin is a prompt; on a terminal, you can type them. "
      "With\n"
      "--chat each starts a new conversation; on a terminal they continue one, /reset starts a new one, "
      "/exit\n"
      "ends, and /help shows this.");
}

}  // namespace dpo::commands
