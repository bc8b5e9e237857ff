#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/output_files.h"
#include "base/quantity.h"
#include "commands/commands.h"
#include "commands/fetch.h"
#include "commands/progress.h"
#include "commands/run_keys.h"
#include "config/defaults.h"
#include "data/chat_files.h"
#include "data/report.h"
#include "data/tokenizer_folder.h"
#include "plan/gather_inputs.h"

namespace dpo::commands {
namespace {

struct DataArguments {
  config::Request request;
  bool json = false;
  std::int64_t order = 0;
  bool tokens = false;
  std::string split;
  std::string lengths_file;
};

// Loads splits one by one, with a progress bar and notes on stderr. Each note is printed once.
class SplitLoader {
 public:
  explicit SplitLoader(const config::RunConfig& config)
      : config_(config), tokenizer_(text::Tokenizer::load(data::tokenizer_folder(config))) {}

  data::Examples load(data::Split split) {
    ProgressLine line;
    data::TokenCache cache;
    cache.folder = plan::folder_of_user(config_) / "tokens";
    cache.progress = [&](const std::string& source, std::int64_t done, std::int64_t all) {
      line.show("tokenizing " + source, done, all, "prompts");
    };
    data::Examples examples = data::Examples::load(config_, split, tokenizer_, cache);
    if (split == data::Split::Test) cache.notes.push_back(data::evaluation_note(examples, config_));
    for (const std::string& note : cache.notes)
      if (!note.empty() && printed_.insert(note).second) print_notes({note});
    return examples;
  }

  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const config::RunConfig& config_;
  text::Tokenizer tokenizer_;
  std::set<std::string> printed_;
};

data::Split split_of(const std::string& name) {
  return name == "test" ? data::Split::Test : data::Split::Train;
}

int print_order(const DataArguments& arguments, const config::Resolved& resolved) {
  const config::RunConfig& config = resolved.values;
  const data::Split split = split_of(arguments.split);
  std::optional<data::Examples> examples;
  if (arguments.tokens || data::find_tokenizer_folder(config)) examples = SplitLoader(config).load(split);
  std::vector<std::string> notes;
  const data::OrderRequest request{split, arguments.order, arguments.tokens,
                                   !config::is_given(resolved, "batch_size")};
  const std::string lines = data::order_lines(config, request, examples ? &*examples : nullptr, notes);
  if (!examples) {
    print_notes(
        {"no tokenizer on this machine: examples that a run would drop for their tokens (data.eos_in_text "
         "and others) are included"});
    print_notes(notes);
  }
  print_notes(unused_keys_notes(resolved));
  fmt::print("{}", lines);
  return 0;
}

// Describes how many rows a split without examples had, and why they were dropped.
std::string drops_text(const data::SplitReport& split) {
  std::int64_t rows = 0, bad = 0;
  std::array<std::int64_t, data::kDropReasons> dropped{};
  for (const data::SourceCounts& counts : split.examples.counts()) {
    rows += counts.rows;
    bad += counts.bad_rows;
    for (std::size_t i = 0; i < data::kDropReasons; ++i) dropped[i] += counts.dropped[i];
  }
  std::string text = fmt::format("{} read", plural(rows, "row"));
  if (bad > 0) text += fmt::format(", {} cannot be read", with_commas(bad));
  std::string keep;
  for (std::size_t i = 0; i < data::kDropReasons; ++i) {
    if (dropped[i] == 0) continue;
    text += fmt::format(", {} dropped by data.{}", plural(dropped[i], "example"), data::kDropReasonKeys[i]);
    const bool is_long = static_cast<data::DropReason>(i) == data::DropReason::NoRoom;
    keep +=
        fmt::format("{}{}", keep.empty() ? "; try " : " or ",
                    is_long ? "a larger max_length" : fmt::format("data.{}=keep", data::kDropReasonKeys[i]));
  }
  return text + keep;
}

// Throws if a split has no examples, because no run can use it.
void require_examples(const std::vector<data::SplitReport>& splits) {
  std::vector<std::string> problems;
  for (const data::SplitReport& split : splits)
    if (split.examples.size() == 0)
      problems.push_back(fmt::format("the {} split has no example left: {}", split.name, drops_text(split)));
  if (!problems.empty()) throw UserError(problems);
}

int print_report(const DataArguments& arguments, config::Resolved resolved) {
  const config::RunConfig& config = resolved.values;
  SplitLoader loader(config);
  std::vector<data::SplitReport> splits;
  std::vector<std::string> names = {"train"};
  if (config.eval_every) names.emplace_back("test");  // otherwise a run does not read it
  if (!arguments.split.empty()) names = {arguments.split};
  for (const std::string& name : names) {
    data::Examples examples = loader.load(split_of(name));
    if (split_of(name) == data::Split::Train) {
      resolved = adapted_to_data(std::move(resolved), {"example", examples.size(), 0, {}});
      print_notes(resolved.notes);
    }
    splits.push_back(data::make_report(std::move(examples), split_of(name), config));
  }
  const bool has_chats =
      std::ranges::any_of(splits, [](const data::SplitReport& split) { return split.examples.has_chats(); });
  if (const std::string note = data::unused_template_note(config, has_chats); !note.empty())
    print_notes({note});
  print_notes(unused_keys_notes(resolved));
  if (!arguments.lengths_file.empty()) {
    if (!arguments.split.empty()) throw UserError("--lengths needs both splits: remove --split");
    const data::Examples* const tested = splits.size() > 1 ? &splits[1].examples : nullptr;
    write_file(arguments.lengths_file, data::lengths_yaml(splits[0].examples, splits[0].lengths, tested));
  }
  fmt::print("{}", arguments.json ? data::to_json(splits, loader.tokenizer())
                                  : data::to_text(splits, loader.tokenizer()));
  std::fflush(stdout);  // prints the report before the error
  require_examples(splits);
  return 0;
}

int run_data(const DataArguments& arguments) {
  if (!arguments.lengths_file.empty()) check_replaceable(arguments.lengths_file, data::kLengthsMark);
  config::Resolved resolved = config::compose(arguments.request);
  print_notes(resolved.notes);
  const hub::Listener listener = shown_downloads();
  fetch_tokenizer(resolved.values, listener);
  if (arguments.order == 0) data::tokenizer_folder(resolved.values);  // fails before data is downloaded
  resolved = adapted(std::move(resolved));
  print_notes(resolved.notes);
  fetch_data(resolved.values, listener);
  if (resolved.values.defaults == config::Defaults::modern)  // the lengths that training will use
    resolved = fitted(resolved, [](const std::string& note) { print_notes({note}); }).resolved;
  return arguments.order > 0 ? print_order(arguments, resolved)
                             : print_report(arguments, std::move(resolved));
}

void describe(CLI::App& command, DataArguments& arguments) {
  command.description("read and tokenize a run's data: counts, lengths, dropped rows, examples");
  arguments.request.not_needed = {"exp_name", "loss.beta", "model.name_or_path"};
  add_run_arguments(
      command, arguments.request,
      {{"dpo data datasets=[pairs.jsonl] model.tokenizer_name_or_path=MODEL",
        "dpo data datasets=[pairs.jsonl] model.tokenizer_name_or_path=MODEL --order 3"},
       "MODEL is a folder with a tokenizer, or a model name ORG/NAME on the Hugging Face hub."});
  const auto json = command.add_flag("--json", arguments.json, "print one JSON object");
  at_least_one(command.add_option(
                   "--order", arguments.order,
                   "print the first N examples in training order as JSON lines (prompt, chosen, rejected)"))
      ->type_name("N")
      ->excludes(json);
  command.add_flag("--tokens", arguments.tokens, "also print token ids")->needs("--order");
  takes_one_of(
      command.add_option("--split", arguments.split, "only this split (default: both; train with --order)"),
      {"train", "test"});
  takes_path(command.add_option("--lengths", arguments.lengths_file,
                                "write length statistics to FILE, for 'dpo plan plan.lengths=FILE'"))
      ->type_name("FILE");
}

}  // namespace

Command data_command() { return make_command<DataArguments>("data", run_data); }

}  // namespace dpo::commands
