#include <atomic>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "commands/commands.h"
#include "commands/fetch.h"
#include "commands/lines.h"
#include "text/chat_template.h"
#include "text/chat_turns.h"
#include "text/tokenizer.h"

namespace dpo::commands {
namespace {

struct RenderArguments {
  std::string model;
  std::string chat_template;
  bool tokens = false;
  unsigned threads = 0;
};

text::ChatTemplate template_of(const RenderArguments& arguments) {
  const bool is_file = arguments.model.ends_with(".jinja");
  if (is_file && !arguments.chat_template.empty())
    throw UserError(fmt::format(
        "--chat-template replaces the template of a model folder, but MODEL is a file: {}", arguments.model));
  if (is_file) return {read_text_file(arguments.model, "the chat template"), arguments.model, {}};
  if (auto found = text::find_chat_template(arguments.model, arguments.chat_template))
    return *std::move(found);
  throw UserError(
      fmt::format("{}: no chat template; expected chat_template.jinja, or chat_template in "
                  "tokenizer_config.json or chat_template.json; or choose one: --chat-template {}",
                  arguments.model, fmt::join(text::builtin_chat_templates(), "|")));
}

std::string render_line(const text::ChatTemplate& chat_template, const text::Tokenizer* tokenizer,
                        std::string_view line) {
  const text::jinja::Value variables = text::jinja::parse_json(line);
  const text::RenderedChat chat = chat_template.render(variables);
  if (!tokenizer) return nlohmann::json(chat.text).dump() + "\n";
  const auto trained =
      text::trained_tokens(*tokenizer, chat.text, text::assistant_text(chat_template, variables, chat));
  return fmt::format("{{\"ids\":[{}],\"trained\":[{}]}}\n", fmt::join(trained.ids, ","),
                     fmt::join(trained.mask, ","));
}

int run_render(RenderArguments arguments) {
  arguments.model = tokenizer_folder_of(arguments.model);
  const text::ChatTemplate chat_template = template_of(arguments);
  std::optional<text::Tokenizer> tokenizer;
  if (arguments.tokens) tokenizer = text::Tokenizer::load(arguments.model);
  const text::Tokenizer* const used = tokenizer ? &*tokenizer : nullptr;

  LineReader reader;
  std::vector<std::string_view> lines;
  std::atomic<bool> failed = false;
  while (reader.next_batch(lines)) {
    std::vector<std::string> answers(lines.size());
    const auto answer = [&](std::size_t i) {
      try {
        answers[i] = render_line(chat_template, used, lines[i]);
      } catch (const std::exception& error) {
        failed = true;
        const auto replace = nlohmann::json::error_handler_t::replace;
        answers[i] = nlohmann::json{{"error", error.what()}}.dump(-1, ' ', false, replace) + "\n";
      }
    };
    for_each_parallel(lines.size(), answer, arguments.threads > 0 ? arguments.threads : usable_cores());
    print_lines(answers);
  }
  return failed ? 1 : 0;
}

void describe(CLI::App& command, RenderArguments& arguments) {
  command.description("render conversations with a chat template: JSON lines to text");
  takes_path(
      command.add_option("MODEL", arguments.model,
                         "model folder, model name ORG/NAME on the Hugging Face hub, or a .jinja file"))
      ->required();
  takes_path(command.add_option(
                 "--chat-template", arguments.chat_template,
                 "chat template to use instead of the folder's own: chatml, zephyr, plain, one of its named "
                 "templates, or a file"))
      ->type_name("NAME|FILE");
  command.add_flag("--tokens", arguments.tokens, "print token ids, and which of them are trained on");
  command.add_option("--threads", arguments.threads, "number of threads (default: one per core)")
      ->type_name("N");
  command.footer(
      "Each line of stdin is an object:\n"
      "  {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}\n"
      "Other keys (tools, documents, enable_thinking, ...) are variables of the template.\n"
      "Each line of stdout is the text as a JSON string, or {\"error\": ...}.\n"
      "The exit status is 1 if a line had an error.");
}

}  // namespace

Command render_command() { return make_command<RenderArguments>("render", run_render); }

}  // namespace dpo::commands
