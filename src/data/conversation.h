// Conversations of rows: lists of messages, and columns that are turns of one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "data/rows.h"

namespace dpo::data {

// Messages are Maps with role and content, as chat templates read them; further keys are kept.
using Messages = std::vector<Value>;

// Whether a value is a message or a list of messages: {role, content} or ShareGPT's {from, value}.
bool is_messages(const Value& value);

// What a value that is no messages is: "an empty list", "a list of strings", "a number". For messages.
std::string shape_of(const Value& value);

// The messages of such a value; ShareGPT's become {role, content}, with user and assistant for human
// and gpt, and known roles in small letters. Others are a BadRow.
Messages messages_of(const Value& value, std::string_view column);

Value make_message(std::string role, std::string content);
std::string_view role_of(const Value& message);

// A prompt and the responses to it, in messages.
struct Conversation {
  Messages prompt;
  std::vector<Messages> responses;
};

// Responses that repeat the prompt lose it. Without messages before them (`prompt` is empty, a system message
// or a text), whole conversations have their first messages in common: these are the prompt. BadRow if
// nothing is common, or if a response has no message of the assistant.
Conversation split_conversation(Messages prompt, std::vector<Messages> responses, bool prompt_is_text);

// A whole conversation for SFT: the response begins with the first (last) message of the assistant that
// follows one of the user, and ends with the last message of the assistant.
Conversation split_for_sft(Messages messages, config::TrainOn train_on);

// As PromptText has them: {"messages": [...], "tools": ..., "chat_template_kwargs": ...}, without what is
// null; and a list of messages. `tools` and `kwargs` may be JSON in a string.
std::string prompt_json(std::span<const Value> messages, const Value* tools, const Value* kwargs);
std::string response_json(std::span<const Value> messages);

}  // namespace dpo::data
