#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "commands/fetch.h"
#include "commands/progress.h"
#include "data/chat.h"
#include "data/examples.h"
#include "data/forest.h"
#include "data/prompt_lines.h"
#include "data/token_cache.h"
#include "engine/loading.h"
#include "engine/run_commands.h"
#include "engine/stopwatch.h"
#include "model/pass.h"

namespace dpo::engine {
namespace {

using data::Token;
using nlohmann::json;

using TokenizedLine = std::vector<data::TokenizedText>;  // the prompt, then its responses

// Encodes prompt and response separately, as training does. Each response ends with EOS.
TokenizedLine tokenize(const data::PromptText& line, const text::Tokenizer& tokenizer) {
  TokenizedLine tokenized = {{tokenizer.encode(line.prompt), 0, {}}};
  for (const std::string& response : line.responses) {
    tokenized.push_back({tokenizer.encode(response), 0, {}});
    tokenized.back().tokens.push_back(data::end_of_text(tokenizer));
  }
  return tokenized;
}

// Tokenizes conversations with the chat template, as training does, and other lines as text.
std::vector<TokenizedLine> tokenize(const std::vector<data::PromptLine>& lines,
                                    const text::Tokenizer& tokenizer,
                                    const commands::ScoreArguments& arguments) {
  std::optional<data::ChatTokenizer> chat;
  if (std::ranges::any_of(lines, [](const data::PromptLine& line) { return line.text.chat; })) {
    config::RunConfig settings = commands::chat_settings(arguments.rendering);
    if (arguments.max_length) settings.max_length = *arguments.max_length;
    chat.emplace(settings, tokenizer);
  }
  std::vector<TokenizedLine> tokenized(lines.size());
  for_each_parallel(lines.size(), [&](std::size_t i) {
    try {
      tokenized[i] = lines[i].text.chat ? chat->tokenize(lines[i].text) : tokenize(lines[i].text, tokenizer);
    } catch (const data::ChatError& error) {
      throw UserError(fmt::format("{}: {}", lines[i].origin, error.what()));
    }
  });
  return tokenized;
}

data::Truncation truncation_of(const data::PromptLine& line, const commands::ScoreArguments& arguments) {
  const bool keeps_end = arguments.truncation.empty() ? line.text.chat : arguments.truncation == "keep_end";
  return keeps_end ? data::Truncation::KeepEnd : data::Truncation::KeepStart;
}

// Returns examples that point into the tokens.
std::vector<data::Example> examples_of(const std::vector<TokenizedLine>& tokenized,
                                       const std::vector<data::PromptLine>& lines,
                                       const commands::ScoreArguments& arguments) {
  std::vector<data::Example> examples;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::span<const Token> prompt = tokenized[i].front().tokens;
    std::vector<std::span<const Token>> responses;
    std::vector<std::span<const data::TokenRange>> unscored;
    for (const data::TokenizedText& response : std::span(tokenized[i]).subspan(1)) {
      responses.emplace_back(response.tokens);
      unscored.emplace_back(response.unscored);
    }
    data::Example& example = examples.emplace_back();
    if (arguments.max_length) {
      example = data::truncate(prompt, std::move(responses), truncation_of(lines[i], arguments),
                               *arguments.max_length, *arguments.max_prompt_length);
    } else {
      example.prompt = prompt;
      example.responses = std::move(responses);
    }
    example.unscored = std::move(unscored);
  }
  return examples;
}

void check_lengths(const std::vector<data::Example>& examples, const std::vector<data::PromptLine>& lines,
                   const commands::ModelArguments& arguments) {
  const auto context = static_cast<std::size_t>(read_config(arguments).shape.context);
  for (std::size_t i = 0; i < examples.size(); ++i)
    for (std::size_t r = 0; r < examples[i].responses.size(); ++r)
      if (const std::size_t length = examples[i].prompt.size() + examples[i].responses[r].size();
          length > context)
        throw UserError(
            fmt::format("{}: prompt and response {} have {} tokens together, but {} has a context of {}; "
                        "--max-length and --max-prompt-length truncate them",
                        lines[i].origin, r + 1, length, arguments.model, context));
}

struct LineScores {
  std::vector<double> logps;
  std::vector<std::int64_t> tokens;
};

std::int64_t size_of(const data::Example& example) {
  std::size_t size = example.prompt.size();
  for (const auto& response : example.responses) size += response.size();
  return static_cast<std::int64_t>(size);
}

std::vector<LineScores> score_batch(const ReadyModel& ready, std::span<const data::Example> examples) {
  const data::Forest forest = data::make_forest(examples);
  const model::Batch batch = model::make_batch(forest, ready.model.config.shape, ready.weights.device());
  const at::Tensor logps =
      model::forward(ready.model, ready.weights, batch, {}).log_probs.to(at::kCPU, at::kDouble);
  std::vector<LineScores> scores(examples.size());
  for (std::size_t e = 0; e < examples.size(); ++e)
    for (std::int32_t i = forest.example_starts[e]; i < forest.example_starts[e + 1]; ++i) {
      const auto response = static_cast<std::size_t>(forest.compared[static_cast<std::size_t>(i)]);
      scores[e].logps.push_back(logps.const_data_ptr<double>()[response]);
      scores[e].tokens.push_back(forest.row_starts[response + 1] - forest.row_starts[response]);
    }
  return scores;
}

// Scores all examples with one model and calls done(line, scores) for each in order. Returns the time that
// computing took.
template <class Done>
Elapsed score_all(const commands::ModelArguments& arguments, std::span<const data::Example> examples,
                  std::int64_t batch_tokens, Done done) {
  const ReadyModel ready = load_ready_model(arguments);
  commands::ProgressLine progress;
  const Stopwatch watch;
  std::size_t begin = 0;
  while (begin < examples.size()) {
    std::size_t end = begin + 1;
    std::int64_t tokens = size_of(examples[begin]);
    while (end < examples.size() && tokens + size_of(examples[end]) <= batch_tokens)
      tokens += size_of(examples[end++]);
    const std::vector<LineScores> scores = score_batch(ready, examples.subspan(begin, end - begin));
    for (std::size_t i = 0; i < scores.size(); ++i) done(begin + i, scores[i]);
    begin = end;
    progress.show(fmt::format("scoring with {}", arguments.model), static_cast<std::int64_t>(begin),
                  static_cast<std::int64_t>(examples.size()), "lines");
  }
  return watch.elapsed();
}

json rewards_of(const std::vector<double>& logps, const std::vector<double>& reference, double beta) {
  json rewards = json::array();
  for (std::size_t i = 0; i < logps.size(); ++i) rewards.push_back(beta * (logps[i] - reference[i]));
  return rewards;
}

}  // namespace

int run_score(const commands::ScoreArguments& arguments) {
  device_named(arguments.model.device);
  fetch_models(arguments.model);
  if (!arguments.reference.empty()) commands::fetch_model(arguments.reference, hub::Need::weights);
  const text::Tokenizer tokenizer = load_tokenizer(arguments.model);
  const std::vector<data::PromptLine> lines =
      data::read_responses(arguments.file, commands::pairs_of("--columns", arguments.columns));
  if (lines.empty())
    throw UserError(
        fmt::format("{}: there are no rows in it", arguments.file == "-" ? "stdin" : arguments.file));
  const std::vector<TokenizedLine> tokenized = tokenize(lines, tokenizer, arguments);
  const std::vector<data::Example> examples = examples_of(tokenized, lines, arguments);
  check_lengths(examples, lines, arguments.model);
  Elapsed elapsed;
  std::vector<std::vector<double>> reference;
  if (!arguments.reference.empty()) {
    commands::ModelArguments other = arguments.model;
    other.model = arguments.reference;
    other.weights.clear();
    other.adapter.clear();
    check_lengths(examples, lines, other);
    elapsed += score_all(other, examples, arguments.batch_tokens,
                         [&](std::size_t, const LineScores& scores) { reference.push_back(scores.logps); });
  }
  elapsed += score_all(arguments.model, examples, arguments.batch_tokens,
                       [&](std::size_t line, const LineScores& scores) {
                         json result = {{"logps", scores.logps}, {"tokens", scores.tokens}};
                         if (!reference.empty())
                           result["rewards"] = rewards_of(scores.logps, reference[line], arguments.beta);
                         fmt::print("{}\n", result.dump());
                       });
  if (arguments.time) fmt::print(stderr, "{}\n", elapsed.to_json());
  return 0;
}

}  // namespace dpo::engine
