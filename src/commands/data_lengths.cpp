#include "commands/data_lengths.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/statistics.h"
#include "data/tokenizer_folder.h"
#include "plan/gather_inputs.h"

namespace dpo::commands {
namespace {

constexpr std::size_t kSampledPrompts = 1000;  // per source: their mean is within a few percent of all
constexpr double kBytesPerToken = 4;           // about, in English

// The number of tokens of a text.
using Measure = std::function<std::int64_t(const std::string& text)>;

std::int64_t rounded(double value) { return std::llround(value); }

void set_lengths(plan::Lengths& lengths, const data::LengthSummary& prompt,
                 const data::LengthSummary& response) {
  lengths.prompt = prompt.parts;
  lengths.response = response.parts;
  lengths.longest_prompt = static_cast<double>(prompt.longest);
  lengths.longest_response = static_cast<double>(response.longest);
}

// Counts of one split in an epoch.
struct Sizes {
  double examples = 0;  // of SFT
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

// Lengths from a sample of the prompts: every n-th, counted n times.
class SampledLengths {
 public:
  explicit SampledLengths(Measure measure) : measure_(std::move(measure)) {}

  void add(const std::vector<data::PromptText>& texts) {
    const std::size_t step = std::max<std::size_t>(1, texts.size() / kSampledPrompts);
    for (std::size_t i = 0; i < texts.size(); i += step) {
      prompts_.insert(prompts_.end(), step, measure_(texts[i].prompt));
      for (const std::string& response : texts[i].responses)
        responses_.insert(responses_.end(), step, measure_(response) + 1);  // with the end of text
    }
  }

  void finish(plan::Lengths& lengths) {
    set_lengths(lengths, data::summarize(std::move(prompts_)), data::summarize(std::move(responses_)));
  }

 private:
  Measure measure_;
  std::vector<std::int64_t> prompts_, responses_;
};

std::optional<text::Tokenizer> find_tokenizer(const config::RunConfig& run) {
  const auto folder = data::find_tokenizer_folder(run);
  if (!folder) return std::nullopt;
  try {
    return text::Tokenizer::load(*folder);
  } catch (const UserError&) {
    return std::nullopt;  // a plan needs none; tokenizing will report the error
  }
}

// None if a data set is not on this machine.
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

plan::Lengths count_rows(const config::RunConfig& run, const std::vector<data::Source>& train,
                         const std::vector<data::Source>& test, const text::Tokenizer* tokenizer,
                         std::vector<std::string>& notes) {
  plan::Lengths lengths;
  lengths.basis = tokenizer ? plan::LengthBasis::sample : plan::LengthBasis::bytes;
  SampledLengths sample(tokenizer ? Measure([&](const std::string& text) {
    return static_cast<std::int64_t>(tokenizer->encode(text).size());
  })
                                  : Measure([](const std::string& text) {
                                      return rounded(static_cast<double>(text.size()) / kBytesPerToken);
                                    }));
  Sizes trained, tested;
  for (const data::Source& source : train) {
    const std::vector<data::PromptText> texts = read(source, run, notes);
    trained.add(texts, data::weight_of(source, run));
    sample.add(texts);
  }
  for (const data::Source& source : test) tested.add(read(source, run, notes), 1);
  sample.finish(lengths);
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
  return lengths;
}

// The labelled responses among the examples of a run.
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

// From the token cache, if it has all of the data.
std::optional<plan::Lengths> find_counted(const config::RunConfig& run, const text::Tokenizer& tokenizer,
                                          std::vector<std::string>& notes) {
  data::TokenCache cache;
  cache.folder = plan::folder_of_user(run) / "tokens";
  const auto train = data::Examples::find(run, data::Split::Train, tokenizer, cache);
  if (!train) return std::nullopt;
  std::optional<data::Examples> test;
  if (run.eval_every) {
    test = data::Examples::find(run, data::Split::Test, tokenizer, cache);
    if (!test) return std::nullopt;
  }
  for (const std::string& note : cache.notes)
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  return lengths_of(*train, test ? &*test : nullptr);
}

}  // namespace

plan::Lengths lengths_of(const data::Examples& train, const data::Examples* test) {
  const data::SplitSizes sizes = data::sizes_of(train);
  const data::SplitLengths measured = data::measure_lengths(train);
  const std::int64_t examples = train.size(), tested = test ? test->size() : 0;
  plan::Lengths lengths;
  lengths.basis = plan::LengthBasis::tokens;
  set_lengths(lengths, measured.prompt, measured.response);
  // Whichever of these the loss counts, it counts the run's examples; an unpaired loss counts pairs and
  // labels.
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
  return lengths;
}

CountedData count_data(const config::RunConfig& run) {
  if (run.plan.lengths) return {};
  const auto train = sources_here(run, data::Split::Train);
  if (!train) return {};
  auto test = run.eval_every ? sources_here(run, data::Split::Test) : std::vector<data::Source>{};
  if (!test) return {};
  CountedData counted;
  const std::optional<text::Tokenizer> tokenizer = find_tokenizer(run);
  if (tokenizer) counted.lengths = find_counted(run, *tokenizer, counted.notes);
  if (!counted.lengths)
    counted.lengths = count_rows(run, *train, *test, tokenizer ? &*tokenizer : nullptr, counted.notes);
  counted.lengths->name = fmt::format("{}", fmt::join(run.datasets, ", "));
  return counted;
}

}  // namespace dpo::commands
