#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/prompt_lines.h"
#include "engine/loading.h"
#include "engine/run_commands.h"
#include "engine/stopwatch.h"
#include "model/generate.h"
#include "text/text_stream.h"

namespace dpo::engine {
namespace {

using nlohmann::json;
using text::Token;

const char* name_of(model::Finish finish) {
  switch (finish) {
    case model::Finish::eos: return "eos";
    case model::Finish::stopped: return "stop";
    case model::Finish::length: break;
  }
  return "length";
}

model::GenerateOptions options_of(const commands::SampleArguments& arguments, std::vector<Token> eos) {
  model::GenerateOptions options;
  options.sampling = {.greedy = arguments.greedy || arguments.temperature == 0,
                      .temperature = arguments.temperature == 0 ? 1 : arguments.temperature,
                      .top_k = arguments.top_k,
                      .top_p = arguments.top_p,
                      .min_p = arguments.min_p,
                      .repetition_penalty = arguments.repetition_penalty};
  model::check(options.sampling);
  options.max_new_tokens = arguments.max_new_tokens;
  options.samples = arguments.samples;
  options.eos = std::move(eos);
  options.seed = arguments.seed;
  return options;
}

// Generates text from prompts, batch by batch.
class Sampler {
 public:
  Sampler(const commands::SampleArguments& arguments, const text::Tokenizer& tokenizer,
          model::GenerateOptions options)
      : arguments_(arguments),
        tokenizer_(tokenizer),
        options_(std::move(options)),
        ready_(load_ready_model(arguments.model)) {}

  void generate_all(const std::vector<std::string>& prompts);
  const Elapsed& elapsed() const { return elapsed_; }

 private:
  void generate_batch(std::span<const std::string> prompts, bool alone);
  std::vector<Token> tokens_of(const std::string& prompt) const;
  text::TextStream new_stream() const;
  void write_result(const std::string& prompt, std::size_t number, std::size_t sample,
                    const model::Generated& result, const std::string& text) const;

  const commands::SampleArguments& arguments_;
  const text::Tokenizer& tokenizer_;
  model::GenerateOptions options_;
  ReadyModel ready_;
  std::uint64_t prompts_done_ = 0;
  Elapsed elapsed_;
};

// An empty prompt starts as a document does, since a model needs at least one token.
std::vector<Token> Sampler::tokens_of(const std::string& prompt) const {
  std::vector<Token> tokens = tokenizer_.encode(prompt, arguments_.special);
  if (!tokens.empty()) return tokens;
  if (const auto bos = tokenizer_.bos()) return {*bos};
  if (!options_.eos.empty()) return {options_.eos.front()};
  throw UserError("empty prompt: the tokenizer has no BOS or EOS token to start from");
}

text::TextStream Sampler::new_stream() const {
  return {[this](std::span<const Token> tokens) { return tokenizer_.decode(tokens, /*skip_special=*/true); },
          arguments_.stops};
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Sampler::write_result(const std::string& prompt, std::size_t number, std::size_t sample,
                           const model::Generated& result, const std::string& text) const {
  if (!arguments_.json) {
    write(fmt::format("--- prompt {}, sample {}: {}\n{}\n", number + 1, sample + 1, name_of(result.finish),
                      text));
    return;
  }
  const json object = {{"prompt", prompt},
                       {"sample", sample},
                       {"text", text},
                       {"tokens", result.tokens},
                       {"finish", name_of(result.finish)}};
  write(object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

// `alone`: there is only one sample, printed while it is generated.
void Sampler::generate_batch(std::span<const std::string> texts, bool alone) {
  std::vector<std::vector<Token>> tokens;
  for (const std::string& text : texts) tokens.push_back(tokens_of(text));
  std::vector<model::Prompt> prompts;
  for (const auto& each : tokens) prompts.push_back({each, prompts_done_ + prompts.size()});
  std::vector<text::TextStream> streams(texts.size() * static_cast<std::size_t>(options_.samples),
                                        new_stream());
  const Stopwatch watch;
  const std::vector<model::Generated> results =
      model::generate(ready_.model, ready_.weights, prompts, options_, [&](std::size_t sample, Token token) {
        const std::string piece = streams[sample].add(token);
        if (alone) write(piece);
        return !streams[sample].stopped();
      });
  elapsed_ += watch.elapsed();
  const auto samples = static_cast<std::size_t>(options_.samples);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string rest = streams[i].finish();
    if (alone)
      write(rest + "\n");
    else
      write_result(texts[i / samples], prompts_done_ + i / samples, i % samples, results[i],
                   streams[i].text());
  }
  prompts_done_ += texts.size();
}

void Sampler::generate_all(const std::vector<std::string>& prompts) {
  const bool alone = prompts.size() == 1 && arguments_.samples == 1 && !arguments_.json;
  const auto batch =
      static_cast<std::size_t>(std::max<std::int64_t>(1, arguments_.batch / arguments_.samples));
  for (std::size_t begin = 0; begin < prompts.size(); begin += batch)
    generate_batch(std::span(prompts).subspan(begin, std::min(batch, prompts.size() - begin)), alone);
}

// Each line is a prompt, until the end of input (Ctrl-D).
void prompt_user(Sampler& sampler) {
  std::string line;
  for (;;) {
    fmt::print(stderr, "prompt> ");
    if (!std::getline(std::cin, line)) break;
    if (!line.empty()) sampler.generate_all({line});
  }
  fmt::print(stderr, "\n");
}

}  // namespace

int run_sample(const commands::SampleArguments& arguments) {
  device_named(arguments.model.device);
  if (std::ranges::find(arguments.stops, "") != arguments.stops.end())
    throw UserError("--stop must not be empty");
  fetch_models(arguments.model);
  const text::Tokenizer tokenizer = load_tokenizer(arguments.model);
  std::vector<std::string> prompts = arguments.prompts;
  const bool none_given = prompts.empty() && arguments.prompt_file.empty();
  const bool interactive = none_given && isatty(STDIN_FILENO) != 0;
  if (!arguments.prompt_file.empty() || (none_given && !interactive)) {
    const std::vector<std::string> more = data::read_prompts(none_given ? "-" : arguments.prompt_file);
    prompts.insert(prompts.end(), more.begin(), more.end());
  }
  Sampler sampler(arguments, tokenizer, options_of(arguments, end_tokens(arguments.model, tokenizer)));
  if (interactive)
    prompt_user(sampler);
  else
    sampler.generate_all(prompts);
  if (arguments.time) fmt::print(stderr, "{}\n", sampler.elapsed().to_json());
  return 0;
}

}  // namespace dpo::engine
