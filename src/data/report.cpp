#include "data/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "base/utf8.h"
#include "config/evaluation.h"
#include "data/token_view.h"

namespace dpo::data {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kShownExamples = 3;
// Number of packed examples that are measured. Packing is similar in every batch, so these are enough.
constexpr std::int64_t kPackedExamples = 20'000;

// Dumps JSON with replacement characters, because truncated tokens may end inside a UTF-8 character.
std::string dump(const OrderedJson& value, int indent = -1) {
  return value.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

// Return the first (last) bytes of a text, without partial characters.
std::string head(const std::string& text, std::size_t length) {
  if (text.size() <= length) return text;
  while (length > 0 && continues_character(text[length])) --length;
  return text.substr(0, length) + "...";
}

std::string tail(const std::string& text, std::size_t length) {
  if (text.size() <= length) return text;
  std::size_t begin = text.size() - length;
  while (begin < text.size() && continues_character(text[begin])) ++begin;
  return "..." + text.substr(begin);
}

std::string tokens_text(std::size_t count) { return plural(static_cast<std::int64_t>(count), "token"); }

std::string cut_mark(std::size_t cut) { return cut == 0 ? "" : fmt::format("[{} cut]", tokens_text(cut)); }

// An example, and the number of tokens that truncation removed.
struct Shown {
  Example example;
  std::size_t prompt_cut = 0;
  std::vector<std::size_t> response_cuts;
  bool keeps_end = false;
  std::string source;
};

Shown show(const Examples& examples, std::uint32_t i) {
  const ExampleOrigin& origin = examples.list().origins[i];
  const TokenFile& tokens = examples.tokens(origin.source);
  Shown shown{examples.at(i), 0, {}, false, examples.source(origin.source).name};
  shown.prompt_cut = tokens.prompt(origin.prompt).size() - shown.example.prompt.size();
  const std::vector<std::uint32_t> responses = examples.responses_of(origin);
  for (std::size_t r = 0; r < shown.example.responses.size(); ++r) {
    shown.response_cuts.push_back(tokens.response(origin.prompt, responses[r]).size() -
                                  shown.example.responses[r].size());
  }
  shown.keeps_end = examples.source(origin.source).truncation() == Truncation::KeepEnd;
  return shown;
}

std::string example_text(const Shown& shown, const text::Tokenizer& tokenizer) {
  constexpr std::size_t kPromptWidth = 60;
  constexpr std::size_t kResponseWidth = 120;
  const Example& example = shown.example;
  const std::string cut = cut_mark(shown.prompt_cut);
  const std::string prompt = tail(escaped(tokenizer.decode(example.prompt)), kPromptWidth);
  std::string text = fmt::format("  {}, prompt of {}:\n", shown.source, tokens_text(example.prompt.size()));
  for (std::size_t r = 0; r < example.responses.size(); ++r) {
    const std::string response = head(escaped(tokenizer.decode(example.responses[r])), kResponseWidth);
    text += fmt::format("    {}{}{} | {}{}  ({})\n", shown.keeps_end ? cut : "", prompt,
                        shown.keeps_end ? "" : cut, response, cut_mark(shown.response_cuts[r]),
                        tokens_text(example.responses[r].size()));
  }
  return text;
}

OrderedJson example_json(const Shown& shown, const text::Tokenizer& tokenizer) {
  OrderedJson responses = OrderedJson::array();
  for (std::size_t r = 0; r < shown.example.responses.size(); ++r)
    responses.push_back({{"text", tokenizer.decode(shown.example.responses[r])},
                         {"tokens", shown.example.responses[r].size()},
                         {"cut", shown.response_cuts[r]}});
  return {{"source", shown.source},
          {"prompt",
           {{"text", tokenizer.decode(shown.example.prompt)},
            {"tokens", shown.example.prompt.size()},
            {"cut", shown.prompt_cut}}},
          {"responses", responses}};
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string counts_text(const SourceCounts& c, ExampleKind kind) {
  std::string text = fmt::format("  {}: {}", c.name, plural(c.rows, "row"));
  if (c.bad_rows > 0) text += fmt::format(" ({} more cannot be read)", c.bad_rows);
  text += fmt::format(", {}, ", plural(c.prompts, "prompt"));
  text += kind == ExampleKind::Ranking
              ? fmt::format("{} of {}", plural(c.rankings, "ranking"), plural(c.ranked, "response"))
              : plural(c.pairs, "pair");
  if (c.labels > 0) text += fmt::format(", {} ({} good)", plural(c.labels, "labelled response"), c.desirable);
  text += fmt::format("; {}\n", plural(c.examples, "example"));
  if (c.weighted + c.with_margin > 0)
    text += fmt::format("    with a weight: {}, with a margin: {}\n", c.weighted, c.with_margin);
  for (std::size_t i = 0; i < kDropReasons; ++i)
    if (c.dropped[i] > 0)
      text += fmt::format("    dropped by data.{}: {}\n", kDropReasonKeys[i], c.dropped[i]);
  if (c.turns_dropped > 0)
    text += fmt::format("    too long: turns of the conversation dropped in {:.1f} % of examples\n",
                        100 * share(c.turns_dropped, c.distinct));
  if (c.boundaries_moved > 0)
    text += fmt::format(
        "    the template renders the end of the prompt differently before an answer in {:.1f} % of "
        "examples: the response begins after the last common token\n",
        100 * share(c.boundaries_moved, c.distinct));
  if (c.ends_added > 0)
    text += fmt::format(
        "    the template writes no end of the turn in {:.1f} % of examples: the end-of-text token was "
        "added\n",
        100 * share(c.ends_added, c.distinct));
  if (c.truncated_prompts + c.truncated_responses > 0)
    text += fmt::format("    truncated: the prompt in {:.1f} %, a response in {:.1f} % of examples\n",
                        100 * share(c.truncated_prompts, c.distinct),
                        100 * share(c.truncated_responses, c.distinct));
  return text;
}

OrderedJson counts_json(const SourceCounts& c) {
  OrderedJson dropped;
  for (std::size_t i = 0; i < kDropReasons; ++i) dropped[kDropReasonKeys[i]] = c.dropped[i];
  return {{"name", c.name},
          {"rows", c.rows},
          {"bad_rows", c.bad_rows},
          {"prompts", c.prompts},
          {"pairs", c.pairs},
          {"rankings", c.rankings},
          {"ranked_responses", c.ranked},
          {"labels", c.labels},
          {"desirable", c.desirable},
          {"examples", c.examples},
          {"weighted", c.weighted},
          {"with_margin", c.with_margin},
          {"dropped", dropped},
          {"turns_dropped", c.turns_dropped},
          {"boundaries_moved", c.boundaries_moved},
          {"ends_added", c.ends_added},
          {"truncated_prompts", c.truncated_prompts},
          {"truncated_responses", c.truncated_responses}};
}

std::string lengths_line(const char* name, const LengthSummary& s) {
  return fmt::format("  {:<8} {:>9} {:>8.1f} {:>7} {:>6} {:>6} {:>8}\n", name, s.count, s.mean, s.median,
                     s.p90, s.p99, s.longest);
}

OrderedJson lengths_json(const LengthSummary& s) {
  return {{"count", s.count}, {"mean", s.mean}, {"p50", s.median},
          {"p90", s.p90},     {"p99", s.p99},   {"longest", s.longest}};
}

// Formats the lengths as in configs/lengths, which plan.lengths=FILE reads.
OrderedJson plan_lengths_json(const SplitReport& train, const SplitReport& test) {
  const SplitSizes trained = sizes_of(train.examples), tested = sizes_of(test.examples);
  OrderedJson train_sizes = {{"prompts", trained.prompts},
                             {"pairs", trained.pairs},
                             {"rankings", trained.rankings},
                             {"ranked", trained.ranked}};
  OrderedJson test_sizes = {{"prompts", tested.prompts}, {"pairs", tested.pairs}};
  if (trained.labels + tested.labels > 0) {
    train_sizes["labels"] = trained.labels;
    train_sizes["desirable"] = trained.desirable;
    test_sizes["labels"] = tested.labels;
  }
  return {{"train", train_sizes},
          {"test", test_sizes},
          {"prompt", train.lengths.prompt.parts},
          {"response", train.lengths.response.parts},
          {"longest",
           {{"prompt", train.lengths.prompt.longest},
            {"response", train.lengths.response.longest},
            {"ranking", trained.longest_ranking}}}};
}

// Formats an example as text or messages, like a row of a file.
OrderedJson order_line(const PromptText& prompt, ExampleKind kind, std::uint32_t number) {
  const auto written = [&](const std::string& text) {
    return prompt.chat ? OrderedJson::parse(text) : OrderedJson(text);
  };
  const std::vector<std::uint32_t> responses = responses_of(prompt, kind, number);
  const auto response = [&](std::size_t i) { return written(prompt.responses[responses[i]]); };
  OrderedJson line;
  if (prompt.chat) {
    const OrderedJson chat = written(prompt.prompt);
    for (const auto& [name, value] : chat.items()) line[name == "messages" ? "prompt" : name] = value;
  } else {
    line["prompt"] = prompt.prompt;
  }
  if (kind == ExampleKind::Ranking) {
    for (std::size_t i = 0; i < responses.size(); ++i) line["responses"].push_back(response(i));
  } else if (kind == ExampleKind::Unpaired && responses.size() == 1) {
    line["completion"] = response(0);
    line["label"] = prompt.labels[number - prompt.pairs.size()].desirable;
  } else {
    line["chosen"] = response(0);
    if (responses.size() > 1) line["rejected"] = response(1);
  }
  return line;
}

// Returns the ranges of each response that are read but not trained on: [[begin, end], ...].
OrderedJson unscored_json(const Example& example) {
  OrderedJson all = OrderedJson::array();
  for (std::size_t r = 0; r < example.unscored.size(); ++r) {
    all.push_back(OrderedJson::array());
    const auto size = static_cast<std::uint32_t>(example.responses[r].size());
    for (const TokenRange& range : example.unscored[r])
      if (range.begin < size) all.back().push_back({range.begin, std::min(range.end, size)});
  }
  return all;
}

void add_ids(OrderedJson& line, const Example& example, ExampleKind kind) {
  line["prompt_ids"] = example.prompt;
  if (!example.unscored.empty()) line["unscored"] = unscored_json(example);
  if (kind == ExampleKind::Ranking) {
    line["responses_ids"] = example.responses;
    return;
  }
  line[line.contains("completion") ? "completion_ids" : "chosen_ids"] = example.responses[0];
  if (example.responses.size() > 1) line["rejected_ids"] = example.responses[1];
}

std::string packing_text(const SplitReport& split) {
  const PackingStatistics& p = split.packing;
  if (p.examples == 0) return fmt::format("  fewer examples than a batch of {}\n", split.batch_size);
  return fmt::format(
      "  batches of {}: {} to compute for {}; padding and repeated prompts would make it "
      "{:.1f} times that\n",
      split.batch_size, plural(p.computed, "token"), plural(p.examples, "example"), p.times_saved());
}

OrderedJson packing_json(const SplitReport& split) {
  const PackingStatistics& p = split.packing;
  return {{"batch_size", split.batch_size}, {"examples", p.examples},
          {"tokens", p.computed},           {"tokens_with_repeated_prompts", p.repeated},
          {"tokens_padded", p.padded},      {"times_saved", p.times_saved()}};
}

}  // namespace

SplitReport make_report(Examples examples, Split split, const config::RunConfig& config) {
  const bool train = split == Split::Train;
  SplitReport report{train ? "train" : "test", std::move(examples), {}, {}, 0, {}};
  report.lengths = measure_lengths(report.examples);
  report.batch_size =
      train ? config.batch_size : config::evaluation_size(config, report.examples.size()).batch;
  if (report.examples.size() < report.batch_size) return report;
  ExampleOrder order = train ? training_order(report.examples.list(), config)
                             : evaluation_order(report.examples.list(), config);
  std::vector<Example> batch;
  while (report.packing.examples < kPackedExamples) {
    const auto numbers = order.next();
    if (!numbers || order.epoch() > 0) break;
    batch.clear();
    for (const std::uint32_t i : *numbers) {
      batch.push_back(report.examples.at(i));
      if (report.first.size() < kShownExamples) report.first.push_back(i);
    }
    report.packing.add(batch);
  }
  return report;
}

std::string to_text(const std::vector<SplitReport>& splits, const text::Tokenizer& tokenizer) {
  std::string text;
  for (const SplitReport& split : splits) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", split.name);
    for (const SourceCounts& counts : split.examples.counts())
      text += counts_text(counts, split.examples.kind());
    text += fmt::format("\n  {:<8} {:>9} {:>8} {:>7} {:>6} {:>6} {:>8}\n", "tokens", "texts", "mean",
                        "median", "90 %", "99 %", "longest");
    text += lengths_line("prompt", split.lengths.prompt);
    text += lengths_line("response", split.lengths.response);
    text += "\n" + packing_text(split);
    if (!split.first.empty()) text += "\n  the first examples, prompt | response:\n";
    for (const std::uint32_t i : split.first) text += example_text(show(split.examples, i), tokenizer);
    if (!split.first.empty())
      text += fmt::format("\n  the first response, token by token ([trained on]):\n    {}\n",
                          token_view(split.examples.at(split.first[0]), tokenizer));
  }
  return text;
}

std::string to_json(const std::vector<SplitReport>& splits, const text::Tokenizer& tokenizer) {
  OrderedJson all;
  for (const SplitReport& split : splits) {
    OrderedJson one;
    for (const SourceCounts& counts : split.examples.counts()) one["sources"].push_back(counts_json(counts));
    one["examples"] = split.examples.size();
    one["tokens"] = {{"prompt", lengths_json(split.lengths.prompt)},
                     {"response", lengths_json(split.lengths.response)}};
    one["packing"] = packing_json(split);
    one["first"] = OrderedJson::array();
    for (const std::uint32_t i : split.first)
      one["first"].push_back(example_json(show(split.examples, i), tokenizer));
    all["splits"][split.name] = one;
  }
  if (splits.size() == 2) all["lengths"] = plan_lengths_json(splits[0], splits[1]);
  return dump(all, 2) + "\n";
}

std::string order_lines(config::RunConfig config, const OrderRequest& request, const Examples* examples,
                        std::vector<std::string>& notes) {
  const auto [split, count, tokens, fits_batch] = request;
  const ExampleKind kind = facts_of(config.loss.name).examples;
  std::vector<std::vector<PromptText>> texts;
  ExampleList all;
  const std::vector<Source> sources = find_sources(config, split);
  for (std::uint32_t source = 0; source < sources.size(); ++source) {
    SourceTexts read = read_source(sources[source], config);
    for (const std::string& note : read.notes) notes.push_back(sources[source].name + ": " + note);
    check_form(sources[source].name, read.prompts, config.loss);
    texts.push_back(std::move(read.prompts));
    for (std::uint32_t p = 0; p < texts[source].size(); ++p) {
      std::vector<ExampleOrigin> origins;
      for (std::uint32_t i = 0; i < count_examples(preferences_of(texts[source][p]), kind); ++i)
        origins.push_back({source, p, i});
      all.add_prompt(p, origins, weight_of(sources[source], config));
    }
  }
  const ExampleList& list = examples ? examples->list() : all;
  if (fits_batch) config.batch_size = std::clamp<std::int64_t>(list.size(), 1, config.batch_size);
  ExampleOrder order = split == Split::Train ? training_order(list, config) : evaluation_order(list, config);
  std::string lines;
  for (std::int64_t printed = 0; printed < count;) {
    const auto batch = order.next();
    if (!batch) break;
    for (std::size_t i = 0; i < batch->size() && printed < count; ++i, ++printed) {
      const ExampleOrigin& origin = list.origins[(*batch)[i]];
      OrderedJson line = order_line(texts[origin.source][origin.prompt], kind, origin.number);
      if (tokens) add_ids(line, examples->at((*batch)[i]), kind);
      lines += dump(line) + "\n";
    }
  }
  return lines;
}

}  // namespace dpo::data
