#include "commands/data_lengths.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/parallel.h"
#include "commands/fetch.h"
#include "data/statistics.h"
#include "data/tokenized_prompt.h"
#include "data/tokenizer_folder.h"
#include "plan/gather_inputs.h"

namespace dpo::commands {
namespace {

constexpr std::size_t kSampledPrompts = 1000;  // per source; their mean is within a few percent of the total
constexpr double kBytesPerToken = 4;           // estimate for English

std::int64_t rounded(double value) { return std::llround(value); }

void set_lengths(plan::Lengths& lengths, const data::LengthSummary& prompt,
                 const data::LengthSummary& response) {
  lengths.prompt = prompt.parts;
  lengths.response = response.parts;
  lengths.longest_prompt = static_cast<double>(prompt.longest);
  lengths.longest_response = static_cast<double>(response.longest);
}

// Counts of one split in one epoch.
struct Sizes {
  double examples = 0;  // for SFT
  double pairs = 0, rankings = 0, ranked = 0, longest_ranking = 2, labels = 0, desirable = 0;

  void add(const std::vector<data::PromptText>& texts, double weight) {
    for (const data::PromptText& prompt : texts) {
      examples += weight * data::count_examples(data::preferences_of(prompt), data::ExampleKind::Target);
      labels += weight * static_cast<double>(prompt.labels.size());
      desirable +=
          weight * static_cast<double>(std::ranges::count(prompt.labels, true, &data::Label::desirable));
      pairs += weight * static_cast<double>(prompt.pairs.size());
      rankings += weight * static_cast<double>(prompt.rankings.size());
      for (const data::Ranking& ranking : prompt.rankings) {
        const auto responses = static_cast<double>(ranking.responses.size());
        ranked += weight * responses;
        longest_ranking = std::max(longest_ranking, responses);
      }
    }
  }
};

SampledSource sample_of(const data::Source& source, std::vector<data::PromptText> texts) {
  SampledSource sample{source, std::max<std::size_t>(1, texts.size() / kSampledPrompts), {}};
  for (std::size_t i = 0; i < texts.size(); i += sample.step) sample.prompts.push_back(std::move(texts[i]));
  return sample;
}

std::vector<data::TokenizedPrompt> tokenize(const SampledSource& sample, const config::RunConfig& run,
                                            const text::Tokenizer& tokenizer) {
  const data::Token eos = data::end_of_text(tokenizer);
  const auto chat = data::chat_of(sample.source, run, tokenizer);
  std::vector<data::TokenizedPrompt> made(sample.prompts.size());
  for_each_parallel(made.size(), [&](std::size_t i) {
    made[i] = data::tokenize_prompt(sample.prompts[i], tokenizer, chat, eos);
  });
  return made;
}

// Counts the truncated examples of a sample. Examples that are dropped for other reasons are counted too.
plan::CutExamples cuts_of(const SampledSource& sample, const std::vector<data::TokenizedPrompt>& tokenized,
                          const config::RunConfig& run) {
  const data::ExampleKind kind = config::facts_of(run.loss.name).examples;
  plan::CutExamples cuts{sample.source.name};
  for (std::size_t i = 0; i < tokenized.size(); ++i) {
    const std::vector<data::TokenizedText>& texts = tokenized[i].texts;
    if (texts.empty()) continue;
    const data::PromptText& prompt = tokenized[i].text_of(sample.prompts[i]);
    const std::uint32_t count = data::count_examples(data::preferences_of(prompt), kind);
    for (std::uint32_t number = 0; number < count; ++number) {
      std::vector<std::span<const data::Token>> responses;
      std::uint8_t flags = texts[0].flags;
      for (const std::uint32_t response : data::responses_of(prompt, kind, number)) {
        responses.emplace_back(texts[response + 1].tokens);
        flags |= texts[response + 1].flags;
      }
      const data::Example example = data::truncate(texts[0].tokens, responses, sample.source.truncation(),
                                                   run.max_length, run.max_prompt_length);
      const data::Cut cut = data::cut_of(example, texts[0].tokens, responses, flags);
      ++cuts.examples;
      cuts.prompts += cut.prompt;
      cuts.responses += cut.response;
      cuts.turns += cut.turns;
    }
  }
  return cuts;
}

// Collects lengths and cuts from a sample of the prompts: every n-th, whose lengths count n times.
class SampledLengths {
 public:
  void add(const SampledSource& sample, const std::vector<data::TokenizedPrompt>& tokenized) {
    for (const data::TokenizedPrompt& prompt : tokenized)
      for (std::size_t i = 0; i < prompt.texts.size(); ++i)
        add(i == 0 ? prompts_ : responses_, prompt.texts[i].tokens.size(), sample.step);
  }

  // Estimates lengths from bytes if there is no tokenizer.
  void add_bytes(const SampledSource& sample) {
    const auto tokens = [](const std::string& text) {
      return std::llround(static_cast<double>(text.size()) / kBytesPerToken);
    };
    for (const data::PromptText& prompt : sample.prompts) {
      add(prompts_, tokens(prompt.prompt), sample.step);
      for (const std::string& response : prompt.responses)
        add(responses_, tokens(response) + 1, sample.step);  // +1 for the end of text
    }
  }

  void finish(plan::Lengths& lengths) {
    set_lengths(lengths, data::summarize(std::move(prompts_)), data::summarize(std::move(responses_)));
  }

 private:
  template <class Count>
  static void add(std::vector<std::int64_t>& lengths, Count tokens, std::size_t times) {
    lengths.insert(lengths.end(), times, static_cast<std::int64_t>(tokens));
  }

  std::vector<std::int64_t> prompts_, responses_;
};

plan::Cuts no_cuts(const config::RunConfig& run) { return {run.max_length, run.max_prompt_length, {}}; }

std::optional<text::Tokenizer> find_tokenizer(const config::RunConfig& run) {
  const auto folder = data::find_tokenizer_folder(run);
  if (!folder) return std::nullopt;
  try {
    return text::Tokenizer::load(*folder);
  } catch (const UserError&) {
    return std::nullopt;  // a plan needs no tokenizer; tokenizing will report the error
  }
}

// Returns nullopt if a data set is not on this machine.
std::optional<std::vector<data::Source>> sources_here(const config::RunConfig& run, data::Split split) {
  try {
    return data::find_sources(run, split);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::vector<data::PromptText> read(const data::Source& source, const config::RunConfig& run,
                                   std::vector<std::string>& notes) {
  data::SourceTexts texts = data::read_source(source, run);
  data::check_form(source.name, texts.prompts, run.loss);
  for (const std::string& line : texts.notes)
    if (const std::string note = source.name + ": " + line;
        std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(note);
  return std::move(texts.prompts);
}

CountedData count_rows(const config::RunConfig& run, const std::vector<data::Source>& train,
                       const std::vector<data::Source>& test, const text::Tokenizer* tokenizer,
                       std::vector<std::string> notes) {
  CountedData counted{plan::Lengths{}, std::move(notes), {}};
  plan::Lengths& lengths = *counted.lengths;
  lengths.basis = tokenizer ? plan::LengthBasis::sample : plan::LengthBasis::bytes;
  lengths.cuts = no_cuts(run);
  SampledLengths sampled;
  Sizes trained, tested;
  for (const data::Source& source : train) {
    std::vector<data::PromptText> texts = read(source, run, counted.notes);
    trained.add(texts, data::weight_of(source, run));
    const SampledSource& sample = counted.sample.emplace_back(sample_of(source, std::move(texts)));
    if (!tokenizer) {
      sampled.add_bytes(sample);
      continue;
    }
    const std::vector<data::TokenizedPrompt> tokenized = tokenize(sample, run, *tokenizer);
    sampled.add(sample, tokenized);
    lengths.cuts.sources.push_back(cuts_of(sample, tokenized, run));
  }
  for (const data::Source& source : test) tested.add(read(source, run, counted.notes), 1);
  sampled.finish(lengths);
  lengths.train_prompts = rounded(trained.examples);
  lengths.train_pairs = rounded(trained.pairs);
  lengths.train_rankings = rounded(trained.rankings);
  lengths.train_ranked = rounded(trained.ranked);
  lengths.longest_ranking = trained.longest_ranking;
  lengths.train_labels = rounded(trained.labels);
  lengths.train_desirable = rounded(trained.desirable);
  lengths.test_prompts = rounded(tested.examples);
  lengths.test_pairs = rounded(tested.pairs);
  lengths.test_rankings = rounded(tested.rankings);
  lengths.test_labels = rounded(tested.labels);
  return counted;
}

plan::Cuts cuts_of(const data::Examples& train, const config::RunConfig& run) {
  plan::Cuts cuts = no_cuts(run);
  for (const data::SourceCounts& counts : train.counts())
    cuts.sources.push_back({counts.name, counts.distinct, counts.truncated_prompts,
                            counts.truncated_responses, counts.turns_dropped});
  return cuts;
}

// Labeled responses among the examples of a run.
struct LabelCounts {
  std::int64_t all = 0, desirable = 0;
};

LabelCounts count_labels(const data::Examples& examples) {
  LabelCounts counts;
  for (const data::ExampleOrigin& origin : examples.list().origins)
    if (const data::Label* label = examples.label_of(origin)) {
      ++counts.all;
      counts.desirable += label->desirable;
    }
  return counts;
}

data::TokenCache cache_of(const config::RunConfig& run) { return {plan::folder_of_user(run) / "tokens"}; }

// Returns lengths from the token cache, or nullopt if it does not have all of the data.
std::optional<plan::Lengths> find_counted(const config::RunConfig& run, const text::Tokenizer& tokenizer,
                                          std::vector<std::string>& notes) {
  data::TokenCache cache = cache_of(run);
  const auto train = data::Examples::find(run, data::Split::Train, tokenizer, cache);
  if (!train) return std::nullopt;
  std::optional<data::Examples> test;
  if (run.eval_every) {
    test = data::Examples::find(run, data::Split::Test, tokenizer, cache);
    if (!test) return std::nullopt;
  }
  for (const std::string& note : cache.notes)
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  return lengths_of(*train, test ? &*test : nullptr, run);
}

}  // namespace

plan::Lengths lengths_of(const data::Examples& train, const data::Examples* test,
                         const config::RunConfig& run) {
  const data::SplitSizes sizes = data::sizes_of(train);
  const data::SplitLengths measured = data::measure_lengths(train);
  const std::int64_t examples = train.size(), tested = test ? test->size() : 0;
  plan::Lengths lengths;
  lengths.basis = plan::LengthBasis::tokens;
  set_lengths(lengths, measured.prompt, measured.response);
  // The loss determines which of these counts are used, and all of them count the run's examples. An unpaired
  // loss counts both pairs and labels.
  const LabelCounts labels = count_labels(train);
  lengths.train_prompts = lengths.train_rankings = examples;
  lengths.train_pairs = examples - labels.all;
  lengths.train_labels = labels.all;
  lengths.train_desirable = labels.desirable;
  lengths.test_prompts = lengths.test_rankings = tested;
  lengths.test_labels = test ? count_labels(*test).all : 0;
  lengths.test_pairs = tested - lengths.test_labels;
  lengths.scored = data::scored_share(train);
  const double responses =
      sizes.rankings == 0 ? 2 : static_cast<double>(sizes.ranked) / static_cast<double>(sizes.rankings);
  lengths.train_ranked = rounded(responses * static_cast<double>(examples));
  lengths.longest_ranking = static_cast<double>(sizes.longest_ranking);
  lengths.cuts = cuts_of(train, run);
  return lengths;
}

CountedData count_data(const config::RunConfig& run) {
  if (run.plan.lengths) return {};
  const auto train = sources_here(run, data::Split::Train);
  if (!train) return {};
  auto test = run.eval_every ? sources_here(run, data::Split::Test) : std::vector<data::Source>{};
  if (!test) return {};
  CountedData counted;
  try {
    fetch_tokenizer(run, shown_downloads());
  } catch (const UserError& error) {
    counted.notes.push_back(fmt::format("lengths are estimated without a tokenizer: {}", error.what()));
  }
  const std::optional<text::Tokenizer> tokenizer = find_tokenizer(run);
  if (tokenizer) counted.lengths = find_counted(run, *tokenizer, counted.notes);
  if (!counted.lengths)
    counted = count_rows(run, *train, *test, tokenizer ? &*tokenizer : nullptr, counted.notes);
  counted.lengths->name = fmt::format("{}", fmt::join(run.datasets, ", "));
  return counted;
}

void count_cuts(CountedData& counted, const config::RunConfig& run) {
  plan::Cuts& cuts = counted.lengths->cuts;
  const bool is_known = cuts.max_length == run.max_length && cuts.max_prompt_length == run.max_prompt_length;
  if (is_known || counted.lengths->basis == plan::LengthBasis::bytes) return;
  const text::Tokenizer tokenizer = *find_tokenizer(run);
  cuts = no_cuts(run);
  for (const SampledSource& sample : counted.sample)
    cuts.sources.push_back(cuts_of(sample, tokenize(sample, run, tokenizer), run));
  if (counted.lengths->basis == plan::LengthBasis::sample) return;
  data::TokenCache cache = cache_of(run);
  if (const auto train = data::Examples::find(run, data::Split::Train, tokenizer, cache))
    cuts = cuts_of(*train, run);
}

}  // namespace dpo::commands
