#include "data/chat.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/sha256.h"
#include "config/text.h"
#include "data/chat_files.h"
#include "data/chat_parts.h"
#include "data/token_cache.h"
#include "data/token_file.h"
#include "text/chat_turns.h"
#include "text/jinja/python.h"

namespace dpo::data {
namespace {

namespace jinja = text::jinja;
using jinja::Values;

// Returns the number that is the whole text, or nullopt if there is none in the range of the type.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  const char* const end = text.data() + text.size();
  Number number{};
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

// Converts a YAML scalar to a variable of the template.
jinja::Value scalar(const std::string& text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (text == "null" || text == "None") return {};
  if (const auto whole = number_in<std::int64_t>(text)) return *whole;
  if (const auto number = number_in<double>(text); number && std::isfinite(*number)) return *number;
  return text;
}

jinja::Value value_of(const std::string& json, std::size_t response) {
  try {
    return jinja::parse_json(json);
  } catch (const jinja::Failure& failure) {
    throw ChatError(failure.what(), response);
  }
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \n\t\r");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \n\t\r") - begin + 1);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// Describes the content of a message that is not text. Returns an empty string if it is text.
std::string_view non_text_content(const jinja::Value& message) {
  const jinja::Value* const content = message.find("content");
  if (!content) return "missing";
  if (content->is_string()) return "";
  return content->is_none() ? "null" : content->is_sequence() ? "a list of parts" : "an object or a number";
}

// Returns the text without the reasoning before it, which templates leave out of earlier answers.
std::string without_reasoning(const std::string& text) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t at = text.rfind(kEnd);
  return trimmed(at == text.npos ? text : text.substr(at + kEnd.size()));
}

// Returns whether a template that wrote `text` has read a list of parts: it contains all their texts, and no
// part in Python's notation.
bool reads_parts(const std::string& text, const jinja::Value& parts) {
  if (std::ranges::any_of(parts.items(), &jinja::Value::is_dict) && contains(text, jinja::repr(parts)))
    return false;
  return std::ranges::all_of(parts.items(), [&](const jinja::Value& part) {
    const jinja::Value* const said = part.is_dict() ? part.find("text") : nullptr;
    return !said || !said->is_string() || contains(text, without_reasoning(said->string()));
  });
}

// Returns whether a template that wrote `text` has read a message's content. A user's content must not be
// null, because many templates would write an empty turn. A tool's result may be anything, and may be written
// as JSON.
bool reads_content(const std::string& text, const jinja::Value& message) {
  const std::string_view role = role_of(message);
  const jinja::Value* const content = message.find("content");
  if (!content || content->is_none()) return role != "user";
  const bool has_text = role == "user" || role == "assistant" || role == "system";
  return !has_text || !content->is_sequence() || reads_parts(text, *content);
}

// Returns whether a template that wrote `text` may have left out a message, because not all templates know
// its role. A system message at the start is exempt: some templates leave it out on purpose if the assistant
// has the last word.
bool may_be_left_out(const std::string& text, const Values& messages, std::size_t i) {
  constexpr std::size_t kLong = 16;  // bytes; a text of this length is not in `text` by chance
  const std::string_view role = role_of(messages[i]);
  const jinja::Value* const content = messages[i].find("content");
  if (role == "user" || role == "assistant" || (role == "system" && i == 0) || !content ||
      !content->is_string())
    return false;
  const std::string said = trimmed(content->string());
  return !said.empty() && (said.size() < kLong || !contains(text, said));
}

jinja::Value with_empty_text(const jinja::Value& message) {
  jinja::Dict changed = message.dict();
  changed.set("content", "");
  return changed;
}

std::string unread_content(const Values& messages, std::size_t i) {
  const bool is_list = messages[i].find("content") && messages[i].find("content")->is_sequence();
  return fmt::format(
      "the chat template does not read message {}, whose role is '{}': its 'content' is {}, expected a "
      "string{}",
      i + 1, config::shown(std::string(role_of(messages[i]))), non_text_content(messages[i]),
      is_list ? "; join the texts of its parts" : "");
}

bool is_answer(const jinja::Value& message) { return role_of(message) == "assistant"; }

// Returns whether a message has no text, no parts, no tool calls and no reasoning.
bool is_empty(const jinja::Value& message) {
  return std::ranges::all_of(message.dict().entries(), [](const auto& entry) {
    const jinja::Value& value = entry.second;
    return (entry.first.is_string() && entry.first.string() == "role") || value.is_none() ||
           (value.is_string() && value.string().empty()) || (value.is_sequence() && value.items().empty());
  });
}

Values joined(const Values& first, const Values& second) {
  Values both;
  both.reserve(first.size() + second.size());
  both.insert(both.end(), first.begin(), first.end());
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

std::size_t common_tokens(const std::vector<Token>& a, const std::vector<Token>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Returns the start of a text, for error messages.
std::string start_of(std::string_view text) {
  constexpr std::size_t kShown = 200;
  return config::shown(std::string(text.substr(0, kShown)) + (text.size() > kShown ? "..." : ""));
}

// Returns the parts of [begin, end) outside the ascending ranges, relative to `begin`.
std::vector<TokenRange> complement(const std::vector<TokenRange>& ranges, std::size_t begin,
                                   std::size_t end) {
  std::vector<TokenRange> outside;
  std::size_t at = begin;
  const auto add = [&](std::size_t until) {
    if (until > at)
      outside.push_back({static_cast<std::uint32_t>(at - begin), static_cast<std::uint32_t>(until - begin)});
  };
  for (const TokenRange& range : ranges) {
    add(std::min<std::size_t>(range.begin, end));
    at = std::max<std::size_t>(at, range.end);
  }
  add(end);
  return outside;
}

}  // namespace

ChatTokenizer::ChatTokenizer(const config::RunConfig& config, const text::Tokenizer& tokenizer)
    : tokenizer_(&tokenizer),
      template_(find_template(config, tokenizer)),
      train_on_(config.data.train_on),
      keep_system_(config.data.keep_system),
      max_length_(config.max_length),
      max_prompt_length_(config.max_prompt_length),
      kwargs_(config.chat_template_kwargs) {
  Tools tools = read_tools(config);
  tools_json_ = std::move(tools.json);
  tools_ = std::move(tools.value);
}

bool ChatTokenizer::writes_date() const {
  return template_.source().find("strftime_now") != std::string::npos && !kwargs_.contains("date_string");
}

std::string ChatTokenizer::key() const {
  Sha256 hash;
  const std::string* const with_tools = template_.source_with_tools();
  hash.add(fmt::format("{}\n{}\n{}\n{}\n", template_.source(), with_tools ? *with_tools : "", tools_json_,
                       kwargs_));
  return fmt::format("chat 3 {} train_on {} keep_system {} max_length {} {}\n", to_hex(hash.finish()),
                     config::name_of(train_on_), keep_system_, max_length_, max_prompt_length_);
}

ChatTokenizer::Chat ChatTokenizer::parse(const std::string& prompt) const {
  const jinja::Value json = value_of(prompt, 0);
  Chat chat;
  chat.messages = json.find("messages")->items();
  // An empty list of tools becomes none, because templates test for none and not for an empty list.
  const jinja::Value* const tools = json.find("tools");
  if (!tools)
    chat.tools = tools_;
  else if (!tools->is_sequence() || !tools->items().empty())
    chat.tools = *tools;
  jinja::Dict kwargs;
  for (const auto& [name, text] : kwargs_) kwargs.set(name, scalar(text));
  if (const jinja::Value* const own = json.find("chat_template_kwargs"); own && own->is_dict())
    for (const auto& [name, value] : own->dict().entries()) kwargs.set(name, value);
  chat.kwargs = std::move(kwargs);
  return chat;
}

jinja::Value ChatTokenizer::variables_of(const Chat& chat, Values messages, bool answer_follows) const {
  static const jinja::Value kMessages("messages"), kTools("tools"), kFollows("add_generation_prompt");
  jinja::Dict variables = chat.kwargs.dict();
  variables.set(kMessages.borrowed(), jinja::Value::list(std::move(messages)));
  variables.set(kTools.borrowed(), chat.tools);
  variables.set(kFollows.borrowed(), answer_follows);
  return variables;
}

text::RenderedChat ChatTokenizer::render(const Chat& chat, const Values& messages, bool answer_follows,
                                         std::size_t response) const {
  try {
    text::RenderedChat rendered = template_.render(variables_of(chat, messages, answer_follows));
    check_written(chat, messages, answer_follows, rendered.text, response);
    return rendered;
  } catch (const text::TemplateError& error) {
    if (const auto unread = unread_message(chat, messages, answer_follows))
      throw ChatError(unread_content(messages, *unread), response);
    throw ChatError(fmt::format("the chat template rejects this conversation: {}", error.what()), response);
  }
}

// Returns the index of the message whose content makes the template reject the conversation because it is not
// text. Returns nullopt if there is another reason.
std::optional<std::size_t> ChatTokenizer::unread_message(const Chat& chat, const Values& messages,
                                                         bool answer_follows) const {
  const auto renders = [&](const Values& tried) {
    try {
      template_.render(variables_of(chat, tried, answer_follows));
      return true;
    } catch (const text::TemplateError&) {
      return false;
    }
  };
  Values texts = messages;
  for (jinja::Value& message : texts)
    if (!non_text_content(message).empty()) message = with_empty_text(message);
  if (!renders(texts)) return std::nullopt;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Values with_one = texts;
    with_one[i] = messages[i];
    if (!renders(with_one)) return i;
  }
  return std::nullopt;
}

// Throws ChatError for a message that the template does not write. Many templates skip what they do not know,
// and it would be lost silently.
void ChatTokenizer::check_written(const Chat& chat, const Values& messages, bool answer_follows,
                                  const std::string& text, std::size_t response) const {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!reads_content(text, messages[i])) throw ChatError(unread_content(messages, i), response);
    if (may_be_left_out(text, messages, i) &&
        !text::writes_content(template_, variables_of(chat, messages, answer_follows), i))
      throw ChatError(fmt::format("the chat template leaves out message {}, whose role is '{}'; expected a "
                                  "role that the template supports, such as user or assistant",
                                  i + 1, config::shown(std::string(role_of(messages[i])))),
                      response);
  }
}

std::string ChatTokenizer::render_prompt(const std::string& prompt) const {
  const Chat chat = parse(prompt);
  return render(chat, chat.messages, true, 0).text;
}

ChatTokenizer::Encoded ChatTokenizer::encode(const Chat& chat, const std::vector<Values>& responses) const {
  Encoded encoded;
  const bool answers = std::ranges::all_of(responses, [](const Values& r) { return is_answer(r.front()); });
  const text::RenderedChat prompt = render(chat, chat.messages, answers, 0);
  for (std::size_t r = 0; r < responses.size(); ++r)
    encoded.wholes.push_back(render(chat, joined(chat.messages, responses[r]), false, r));
  std::vector<std::string_view> texts = {prompt.text};
  for (const text::RenderedChat& whole : encoded.wholes) texts.push_back(whole.text);
  encoded.tokens = tokenizer_->encode_alike(texts);
  encoded.prompt = encoded.tokens[0].size();
  for (std::size_t r = 0; r < responses.size(); ++r) {
    encoded.prompt = std::min(encoded.prompt, common_tokens(encoded.tokens[0], encoded.tokens[r + 1]));
    if (encoded.prompt == 0)
      throw ChatError(
          fmt::format("the template writes the prompt differently when an answer follows, so the start of "
                      "the answer cannot be found: the prompt alone is '{}', with the answer it is '{}'",
                      start_of(texts[0]), start_of(texts[r + 1])),
          r);
  }
  return encoded;
}

std::vector<TokenizedText> ChatTokenizer::tokenize(const PromptText& prompt) const {
  Chat chat = parse(prompt.prompt);
  std::vector<Values> responses;
  for (const std::string& response : prompt.responses)
    responses.push_back(value_of(response, responses.size()).items());
  Encoded encoded = encode(chat, responses);
  const bool dropped = drop_turns(chat, responses, encoded);
  std::vector<TokenizedText> texts = finish(chat, responses, std::move(encoded));
  if (dropped) texts[0].flags |= kTurnsDropped;
  const std::string eos = tokenizer_->token_of(end_of_text(*tokenizer_));
  if (prompt.prompt.find(eos) != std::string::npos) texts[0].flags |= kHasEos;
  for (std::size_t r = 0; r < responses.size(); ++r)
    if (prompt.responses[r].find(eos) != std::string::npos) texts[r + 1].flags |= kHasEos;
  return texts;
}

std::vector<TokenizedText> ChatTokenizer::finish(const Chat& chat, const std::vector<Values>& responses,
                                                 Encoded encoded) const {
  const std::size_t start = encoded.prompt;
  std::vector<TokenizedText> texts(1);
  texts[0].tokens.assign(encoded.tokens[0].begin(),
                         encoded.tokens[0].begin() + static_cast<std::ptrdiff_t>(start));
  if (start < encoded.tokens[0].size()) texts[0].flags |= kBoundaryMoved;
  for (std::size_t r = 0; r < responses.size(); ++r) {
    const std::vector<Token>& whole = encoded.tokens[r + 1];
    TokenizedText& text = texts.emplace_back();
    const std::vector<TokenRange> ranges = scored(chat, responses[r], encoded, r);
    std::size_t end = whole.size();
    const bool ends = ends_turn(std::span(whole).subspan(start));
    if (!ends) end = ranges.back().end;  // the model learns to stop right after its answer
    text.tokens.assign(whole.begin() + static_cast<std::ptrdiff_t>(start),
                       whole.begin() + static_cast<std::ptrdiff_t>(end));
    text.unscored = complement(ranges, start, end);
    if (!ends) {
      text.tokens.push_back(end_of_text(*tokenizer_));
      text.flags |= kEndAdded;
    }
    if (responses[r].size() == 1 && is_empty(responses[r].back())) text.flags |= kIsEmpty;
  }
  return texts;
}

// Returns the tokens of a whole conversation that are trained on, all in its response.
std::vector<TokenRange> ChatTokenizer::scored(const Chat& chat, const Values& response,
                                              const Encoded& encoded, std::size_t index) const {
  const text::RenderedChat& rendered = encoded.wholes[index];
  const std::vector<Token>& whole = encoded.tokens[index + 1];
  const auto range = [](std::size_t begin, std::size_t end) {
    return TokenRange{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  };
  // Another response may have moved the end of the prompt. The tokens of the prompt after it are not the
  // assistant's.
  if (response.size() == 1 && !rendered.marked)
    return {range(common_tokens(encoded.tokens[0], whole), whole.size())};
  const jinja::Value variables = variables_of(chat, joined(chat.messages, response), false);
  const bool only_last = train_on_ == config::TrainOn::last;
  const auto answers = positions_of("assistant", response);
  const std::size_t first = chat.messages.size() + (only_last ? answers.back() : 0);
  std::vector<text::TextRange> parts = text::assistant_text(template_, variables, rendered, first);
  if (rendered.marked && only_last) {
    const std::size_t begin = text::start_of_turn(template_, variables, rendered, first);
    std::erase_if(parts, [&](const text::TextRange& part) { return part.end <= begin; });
  }
  std::vector<TokenRange> ranges;
  for (const text::TextRange& part : parts) {
    text::TokenSpan span = text::tokens_of(*tokenizer_, rendered.text, part, whole);
    // The template's marks leave out the end of the turn. Without it the model would never learn to stop.
    const bool ends_after = span.end < whole.size() && tokenizer_->is_special(whole[span.end]);
    if (ends_after && !ends_turn(std::span(whole).subspan(span.begin, span.end - span.begin))) ++span.end;
    if (const std::size_t begin = std::max(span.begin, encoded.prompt); begin < span.end)
      ranges.push_back(range(begin, span.end));
  }
  // The template may mark several ranges of one message.
  if (ranges.size() < (only_last ? 1 : answers.size()))
    throw ChatError("the assistant's text was not found in the rendered conversation", index);
  return ranges;
}

// Returns whether a response ends with a special token, possibly before white space. The model learns to stop
// there.
bool ChatTokenizer::ends_turn(std::span<const Token> tokens) const {
  std::size_t end = tokens.size();
  while (end > 0 && !tokenizer_->is_special(tokens[end - 1]) &&
         trimmed(tokenizer_->decode(std::span(&tokens[end - 1], 1))).empty())
    --end;
  return end > 0 && tokenizer_->is_special(tokens[end - 1]);
}

}  // namespace dpo::data
