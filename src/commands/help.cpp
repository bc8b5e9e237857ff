#include "commands/help.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/nearest.h"
#include "base/terminal.h"
#include "commands/command.h"
#include "config/choices.h"
#include "config/explain.h"
#include "config/schema.h"

namespace dpo::commands {
namespace {

constexpr std::size_t kOptionColumn = 30, kDescriptionWidth = 70;

std::string names_of_options(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;  // sorted, because the order of pointers varies
  for (const CLI::Option* option : options) names.insert(option->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Formats the help. CLI11's own formatter prints "Positionals", "Needs:" and "Excludes:", and wraps no lines.
class PlainHelp : public CLI::Formatter {
 public:
  explicit PlainHelp(std::string extras) : extras_(std::move(extras)) {
    label("SUBCOMMAND", "COMMAND");
    label("REQUIRED", "");  // the usage line shows it
    column_width(kOptionColumn);
  }

  // Adds arguments that CLI11 does not show because they are unknown extra arguments.
  std::string make_usage(const CLI::App* command, std::string name) const override {
    constexpr std::string_view kOptions = "[OPTIONS]";
    std::string usage = CLI::Formatter::make_usage(command, std::move(name));
    if (const std::size_t at = usage.find(kOptions); !extras_.empty() && at != std::string::npos)
      usage.insert(at + kOptions.size(), " " + extras_);
    return usage;
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(is_positional ? "Arguments" : std::move(group), is_positional, options);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (option->get_type_size() == 0) return text;  // a flag
    if (!option->get_type_name().empty()) text += " " + option->get_type_name();
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (const auto needed = option->get_needs(); !needed.empty())
      text += fmt::format(" (only with {})", names_of_options(needed));
    if (const auto others = option->get_excludes(); !others.empty())
      text += fmt::format(" (not with {})", names_of_options(others));
    return wrap_words(text, 0, kDescriptionWidth);
  }

 private:
  const std::string extras_;
};

// Names that other programs use for a command, and an answer with dpo's command.
struct OtherCommands {
  std::string_view names, answer;
};

constexpr OtherCommands kOtherCommands[] = {
    {"chat talk cli-chat", "'dpo sample MODEL --chat' talks with a model"},
    {"generate infer inference predict complete", "'dpo sample MODEL' generates text"},
    {"eval evaluate lm-eval lm_eval test",
     "a run evaluates while it trains (eval_every), and 'dpo score MODEL FILE' scores the responses of a "
     "file"},
    {"export",
     "'dpo merge' writes a model with its adapter merged, 'dpo convert' other formats and dtypes, and "
     "'dpo push' uploads a model"},
    {"merge-lora merge_lora merge-adapter", "'dpo merge' writes a model with its adapter merged"},
    {"resume continue", "'dpo train resume=RUN' continues a run"},
    {"download pull get", "'dpo fetch NAME' downloads a model or a data set"},
    {"upload publish", "'dpo push RUN ORG/NAME' uploads a model"},
    {"finetune fine-tune fit run", "'dpo train' trains a model"},
    {"reward rm grpo ppo rloo",
     "'dpo train loss=NAME' trains on preferences; 'dpo config loss' lists the losses"},
    {"webui web ui webchat board dashboard watch monitor status runs ps",
     "'dpo serve' shows runs on a live page"},
    {"api vllm-serve",
     "'dpo sample MODEL' generates text, and other programs serve what 'dpo merge' and 'dpo push' write"},
    {"env info check system", "'dpo doctor' shows what this machine has"},
    {"preprocess prepare dataset datasets inspect", "'dpo data' reads and tokenizes a run's data"},
    {"estimate memory dry-run validate", "'dpo plan' plans a run: memory, time, disk and checks"},
    {"compare plot logs log", "'dpo report RUN ...' writes the report of a run, or of several"},
    {"benchmark profile", "'dpo bench' measures speed"},
    {"keys params parameters options cat", "'dpo config' lists the configuration keys"},
    {"version", "'dpo --version' prints it"},
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format(std::string extras) {
  return std::make_shared<PlainHelp>(std::move(extras));
}

std::string help_of_keys(const RunHelp& help) {
  std::string out =
      "Set configuration keys with KEY=VALUE, as in Hydra: lr=1e-6, loss.beta=0.1, datasets=[hh,my.jsonl],\n"
      "model=pythia28 (a preset). Quote [ ] and { } if your shell expands them.\n";
  out += help.shows_keys ? "\nMain keys and their defaults:\n" + config::main_keys_text()
                         : "'dpo help train' shows the main keys.\n";
  out +=
      "'dpo config' lists all keys (as does docs/configuration.md), 'dpo config KEY' explains one.\n"
      "\nExamples:\n";
  for (const std::string& example : help.examples) out += "  " + example + "\n";
  if (!help.notes.empty()) out += "\n" + help.notes;
  return out;
}

std::string first_screen(const CLI::App& program, const std::vector<std::string>& commands) {
  std::string out = program.get_description() + "\n\nTo begin with:\n";
  for (const std::string& name : commands)
    out += fmt::format("  {} {:<8} {}\n", program.get_name(), name,
                       program.get_subcommand(name)->get_description());
  return out +
         fmt::format("\n'{0} help' lists all commands, '{0} help COMMAND' explains one with examples.\n",
                     program.get_name());
}

std::string hint_for_command(std::string_view name) {
  for (const OtherCommands& other : kOtherCommands)
    if (has_word(other.names, name)) return fmt::format("; {}", other.answer);
  if (config::find_choice<config::Loss>(name))
    return fmt::format("; 'dpo train loss={}' trains with it", name);
  if (config::find_field(name) || config::is_section(name))
    return fmt::format("; 'dpo config {}' explains the key", name);
  return "";
}

}  // namespace dpo::commands
