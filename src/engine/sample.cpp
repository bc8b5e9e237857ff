#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/end_of_turn.h"
#include "data/prompt_lines.h"
#include "engine/loading.h"
#include "engine/run_commands.h"
#include "engine/stopwatch.h"
#include "model/generate.h"
#include "text/text_stream.h"

namespace dpo::engine {
namespace {

using nlohmann::ordered_json;
using text::Token;

// A text to continue. Without --chat there are no messages.
struct Prompt {
  std::string text;
  ordered_json messages = nullptr;
};

struct Answer {
  std::string text;
  model::Finish finish;
};

std::string dumped(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// Drops white space before an answer, because a template may write it itself ("Assistant: ...").
ordered_json answer_message(const std::string& text) {
  return message("assistant", text.substr(std::min(text.find_first_not_of(" \n"), text.size())));
}

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

// Renders conversations into prompts.
class Chat {
 public:
  Chat(const commands::SampleArguments& arguments, const text::Tokenizer& tokenizer)
      : system_(arguments.system),
        renderer_(commands::chat_settings(arguments.rendering), tokenizer),
        end_(data::end_of_turn(renderer_, tokenizer)) {}

  // Renders {"messages": [...], ...} up to where an answer begins. Errors begin with `origin`.
  Prompt prompt(ordered_json conversation, const std::string& origin = "") const {
    ordered_json& messages = conversation["messages"];
    if (!system_.empty() && (messages.empty() || messages[0]["role"] != "system"))
      messages.insert(messages.begin(), message("system", system_));
    try {
      return {renderer_.render_prompt(dumped(conversation)), messages};
    } catch (const data::ChatError& error) {
      throw UserError(origin + error.what());
    }
  }

  Prompt prompt_of_user(const std::string& text) const {
    return prompt({{"messages", ordered_json::array({message("user", text)})}});
  }

  const data::EndOfTurn& end() const { return end_; }

 private:
  std::string system_;
  data::ChatTokenizer renderer_;
  data::EndOfTurn end_;
};

// Generates text from prompts, batch by batch.
class Sampler {
 public:
  Sampler(const commands::SampleArguments& arguments, const text::Tokenizer& tokenizer,
          model::GenerateOptions options, std::vector<std::string> stops)
      : arguments_(arguments),
        tokenizer_(tokenizer),
        options_(std::move(options)),
        stops_(std::move(stops)),
        ready_(load_ready_model(arguments.model)) {}

  void generate_all(const std::vector<Prompt>& prompts);
  Answer answer(const Prompt& prompt) { return generate_batch(std::span(&prompt, 1), true).front(); }
  const Elapsed& elapsed() const { return elapsed_; }

 private:
  std::vector<Answer> generate_batch(std::span<const Prompt> prompts, bool alone);
  std::vector<Token> tokens_of(const std::string& prompt) const;
  text::TextStream new_stream() const;
  void write_result(const Prompt& prompt, std::size_t number, std::size_t sample,
                    const model::Generated& result, const std::string& text) const;

  const commands::SampleArguments& arguments_;
  const text::Tokenizer& tokenizer_;
  model::GenerateOptions options_;
  std::vector<std::string> stops_;
  ReadyModel ready_;
  std::uint64_t prompts_done_ = 0;
  Elapsed elapsed_;
};

// Encodes a prompt. An empty one starts as a document does, because a model needs at least one token.
std::vector<Token> Sampler::tokens_of(const std::string& prompt) const {
  std::vector<Token> tokens = tokenizer_.encode(prompt, arguments_.special);
  if (!tokens.empty()) return tokens;
  if (const auto bos = tokenizer_.bos()) return {*bos};
  if (!options_.eos.empty()) return {options_.eos.front()};
  throw UserError("empty prompt: the tokenizer has no BOS or EOS token to start from");
}

text::TextStream Sampler::new_stream() const {
  return {[this](std::span<const Token> tokens) { return tokenizer_.decode(tokens, /*skip_special=*/true); },
          stops_};
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Sampler::write_result(const Prompt& prompt, std::size_t number, std::size_t sample,
                           const model::Generated& result, const std::string& text) const {
  if (!arguments_.json) {
    write(fmt::format("--- prompt {}, sample {}: {}\n{}\n", number + 1, sample + 1, name_of(result.finish),
                      text));
    return;
  }
  ordered_json object = {{"prompt", prompt.text},
                         {"sample", sample},
                         {"text", text},
                         {"tokens", result.tokens},
                         {"finish", name_of(result.finish)}};
  if (!prompt.messages.is_null()) {
    object["messages"] = prompt.messages;
    object["messages"].push_back(answer_message(text));
  }
  write(dumped(object) + "\n");
}

// `alone` means that there is only one sample, which is printed while it is generated.
std::vector<Answer> Sampler::generate_batch(std::span<const Prompt> prompts, bool alone) {
  std::vector<std::vector<Token>> tokens;
  for (const Prompt& prompt : prompts) tokens.push_back(tokens_of(prompt.text));
  std::vector<model::Prompt> numbered;
  for (const auto& each : tokens) numbered.push_back({each, prompts_done_ + numbered.size()});
  std::vector<text::TextStream> streams(prompts.size() * static_cast<std::size_t>(options_.samples),
                                        new_stream());
  const Stopwatch watch;
  const std::vector<model::Generated> results =
      model::generate(ready_.model, ready_.weights, numbered, options_, [&](std::size_t sample, Token token) {
        const std::string piece = streams[sample].add(token);
        if (alone) write(piece);
        return !streams[sample].stopped();
      });
  elapsed_ += watch.elapsed();
  const auto samples = static_cast<std::size_t>(options_.samples);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string rest = streams[i].finish();
    if (alone)
      write(rest + "\n");
    else
      write_result(prompts[i / samples], prompts_done_ + i / samples, i % samples, results[i],
                   streams[i].text());
    answers.push_back({streams[i].text(), results[i].finish});
  }
  prompts_done_ += prompts.size();
  return answers;
}

void Sampler::generate_all(const std::vector<Prompt>& prompts) {
  const bool alone = prompts.size() == 1 && arguments_.samples == 1 && !arguments_.json;
  const auto batch =
      static_cast<std::size_t>(std::max<std::int64_t>(1, arguments_.batch / arguments_.samples));
  for (std::size_t begin = 0; begin < prompts.size(); begin += batch)
    generate_batch(std::span(prompts).subspan(begin, std::min(batch, prompts.size() - begin)), alone);
}

// Takes each line as a prompt until the end of input (Ctrl-D).
void prompt_user(Sampler& sampler) {
  fmt::print(stderr, "Each line is a prompt; Ctrl-D ends. With --chat you talk with the model instead.\n");
  std::string line;
  for (;;) {
    fmt::print(stderr, "prompt> ");
    if (!std::getline(std::cin, line)) break;
    if (!line.empty()) sampler.generate_all({Prompt{line}});
  }
  fmt::print(stderr, "\n");
}

constexpr const char* kChatHelp =
    "Each line is a message. /reset starts a new conversation, /exit or Ctrl-D ends, /help shows this.\n";

// Runs a line that is a chat command: a slash and one word of letters. Returns false if it is a message.
bool obey(const std::string& line, ordered_json& messages) {
  if (line.size() < 2 || line[0] != '/' ||
      !std::all_of(line.begin() + 1, line.end(), [](unsigned char c) { return std::isalpha(c) != 0; }))
    return false;
  if (line == "/reset") {
    messages.clear();
    fmt::print(stderr, "note: this is a new conversation\n");
  } else if (line == "/help") {
    fmt::print(stderr, "{}", kChatHelp);
  } else {
    fmt::print(stderr, "note: there is no command {}. {}", line, kChatHelp);
  }
  return true;
}

// Takes each line as a user message or a command until the end of input.
void talk(Sampler& sampler, const Chat& chat) {
  ordered_json messages = ordered_json::array();
  fmt::print(stderr, "{}", kChatHelp);
  std::string line;
  for (;;) {
    fmt::print(stderr, "you> ");
    if (!std::getline(std::cin, line)) break;
    if (line == "/exit") return;
    if (line.empty() || obey(line, messages)) continue;
    messages.push_back(message("user", line));
    try {
      const Answer answer = sampler.answer(chat.prompt({{"messages", messages}}));
      messages.push_back(answer_message(answer.text));
      if (answer.finish == model::Finish::length)
        fmt::print(stderr, "note: the answer is cut by --max-new-tokens or the model's context\n");
    } catch (const UserError& error) {
      messages.erase(messages.size() - 1);
      fmt::print(stderr, "error: {} (/reset starts a new conversation)\n", error.what());
    }
  }
  fmt::print(stderr, "\n");
}

// Returns the prompts of the command line, then those of a file. "-" is stdin; without a file there are no
// more.
std::vector<Prompt> read_texts(const std::vector<std::string>& given, const std::string& file) {
  std::vector<Prompt> prompts;
  for (const std::string& text : given) prompts.push_back({text});
  if (!file.empty())
    for (std::string& text : data::read_prompts(file)) prompts.push_back({std::move(text)});
  return prompts;
}

std::vector<Prompt> read_chats(const Chat& chat, const std::vector<std::string>& given,
                               const std::string& file) {
  std::vector<Prompt> prompts;
  for (const std::string& text : given) prompts.push_back(chat.prompt_of_user(text));
  if (!file.empty())
    for (const data::PromptLine& line : data::read_conversations(file))
      prompts.push_back(chat.prompt(ordered_json::parse(line.text.prompt), line.origin + ": "));
  return prompts;
}

}  // namespace

int run_sample(const commands::SampleArguments& arguments) {
  device_named(arguments.model.device);
  if (std::ranges::find(arguments.stops, "") != arguments.stops.end())
    throw UserError("--stop must not be empty");
  fetch_models(arguments.model);
  const text::Tokenizer tokenizer = load_tokenizer(arguments.model);
  std::vector<Token> eos = end_tokens(arguments.model, tokenizer);
  std::vector<std::string> stops = arguments.stops;
  std::optional<Chat> chat;
  if (arguments.chat) {
    chat.emplace(arguments, tokenizer);
    if (chat->end().token) eos.push_back(*chat->end().token);
    if (!chat->end().text.empty()) stops.push_back(chat->end().text);
  }
  const bool none_given = arguments.prompts.empty() && arguments.prompt_file.empty();
  const bool interactive = none_given && isatty(STDIN_FILENO) != 0;
  if (interactive && chat && (arguments.json || arguments.samples > 1))
    throw UserError(
        "--chat on a terminal has one answer per message: omit --json and --samples, or give prompts");
  const std::string file = none_given && !interactive ? "-" : arguments.prompt_file;
  const std::vector<Prompt> prompts =
      chat ? read_chats(*chat, arguments.prompts, file) : read_texts(arguments.prompts, file);
  Sampler sampler(arguments, tokenizer, options_of(arguments, std::move(eos)), std::move(stops));
  if (!interactive)
    sampler.generate_all(prompts);
  else if (chat)
    talk(sampler, *chat);
  else
    prompt_user(sampler);
  if (arguments.time) fmt::print(stderr, "{}\n", sampler.elapsed().to_json());
  return 0;
}

}  // namespace dpo::engine
