// Tokenizes conversations: a chat template renders them, and the text is then encoded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/example.h"
#include "data/texts.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dpo::data {

// A prompt or a response in tokens.
struct TokenizedText {
  std::vector<Token> tokens;
  std::uint8_t flags = 0;  // TextFlags
  std::vector<TokenRange> unscored;
};

// Thrown for a conversation that the template rejects, or whose prompt and answers cannot be told apart.
struct ChatError : std::runtime_error {
  ChatError(const std::string& what, std::size_t which) : std::runtime_error(what), response(which) {}
  std::size_t response;  // the first affected response
};

class ChatTokenizer {
 public:
  // Uses the configured template or the tokenizer's own. Throws a UserError that explains how to choose one
  // if there is none. The tokenizer must outlive this object.
  ChatTokenizer(const config::RunConfig& config, const text::Tokenizer& tokenizer);

  // Returns the prompt, then its responses, each with the end of its turn. The prompt is the text that the
  // template writes before an answer, cut after the last token that it shares with all of the rendered
  // conversations. If prompt and response exceed max_length, turns are dropped: the first ones of a prompt
  // that exceeds max_prompt_length, and the last ones of a response with several. Throws ChatError.
  std::vector<TokenizedText> tokenize(const PromptText& prompt) const;

  // Returns the text of the prompt (a PromptText's JSON) up to where an answer begins.
  std::string render_prompt(const std::string& prompt) const;

  // Returns everything that the tokens depend on except the texts and the tokenizer.
  std::string key() const;

  const text::ChatTemplate& chat_template() const { return template_; }
  bool writes_date() const;  // true if the text depends on the current date

 private:
  struct Chat;
  struct Encoded;

  Chat parse(const std::string& prompt) const;
  text::jinja::Value variables_of(const Chat& chat, text::jinja::Values messages, bool answer_follows) const;
  text::RenderedChat render(const Chat& chat, const text::jinja::Values& messages, bool answer_follows,
                            std::size_t response) const;
  std::optional<std::size_t> unread_message(const Chat& chat, const text::jinja::Values& messages,
                                            bool answer_follows) const;
  Encoded encode(const Chat& chat, const std::vector<text::jinja::Values>& responses) const;
  std::vector<TokenizedText> finish(const Chat& chat, const std::vector<text::jinja::Values>& responses,
                                    Encoded encoded) const;
  std::vector<TokenRange> scored(const Chat& chat, const text::jinja::Values& response,
                                 const Encoded& encoded, std::size_t index) const;
  void check_written(const Chat& chat, const text::jinja::Values& messages, bool answer_follows,
                     const std::string& text, std::size_t response) const;
  bool ends_turn(std::span<const Token> tokens) const;
  bool drop_turns(Chat& chat, std::vector<text::jinja::Values>& responses, Encoded& encoded) const;
  std::size_t begin_of_turns(const text::jinja::Values& messages) const;

  const text::Tokenizer* tokenizer_;
  text::ChatTemplate template_;
  config::TrainOn train_on_;
  bool keep_system_;
  std::int64_t max_length_;
  std::int64_t max_prompt_length_;
  std::string tools_json_;
  text::jinja::Value tools_;
  std::map<std::string, std::string> kwargs_;
};

}  // namespace dpo::data
