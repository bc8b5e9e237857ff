// Conversations in rows: lists of messages, and columns that are turns of a conversation.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "data/rows.h"

namespace dpo::data {

// Messages are Maps with role and content, the keys that chat templates read. Other keys are kept.
using Messages = std::vector<Value>;

// Returns whether a value is a message or a list of messages: {role, content} or ShareGPT's {from, value}.
bool is_messages(const Value& value);

// Describes a value that is not messages, for error messages: "an empty list", "a list that begins with a
// string".
std::string shape_of(const Value& value);

// Returns the messages of a value for which is_messages is true. ShareGPT's become {role, content}, human and
// gpt become user and assistant, and known roles are in lower case. Throws BadRow for other values.
Messages messages_of(const Value& value, std::string_view column);

Value make_message(std::string role, std::string content);
std::string_view role_of(const Value& message);

// A prompt and its responses as messages.
struct Conversation {
  Messages prompt;
  std::vector<Messages> responses;
};

// Splits a row into a prompt and its responses. If the responses repeat the prompt, it is removed from them.
// If `prompt` is empty, a system message or a text, the responses may be whole conversations; their common
// first messages are then the prompt. Throws BadRow if they have none in common, or if a response has no
// message of the assistant.
Conversation split_conversation(Messages prompt, std::vector<Messages> responses, bool prompt_is_text);

// Splits a whole conversation for SFT. The response begins with the first (last) message of the assistant
// that follows one of the user, and ends with the last message of the assistant.
Conversation split_for_sft(Messages messages, config::TrainOn train_on);

// Format the JSON of a PromptText: {"messages": [...], "tools": ..., "chat_template_kwargs": ...} without
// null members for a prompt, a list of messages for a response. `tools` and `kwargs` may be JSON in a string.
std::string prompt_json(std::span<const Value> messages, const Value* tools, const Value* kwargs);
std::string response_json(std::span<const Value> messages);

}  // namespace dpo::data
