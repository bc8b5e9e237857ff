// The files of conversations that keys name: the chat template, and tools.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "text/chat_template.h"
#include "text/jinja/value.h"
#include "text/tokenizer.h"

namespace dpo::data {

// The configured template or the tokenizer's own; if there is none, a UserError that says how to choose one.
text::ChatTemplate find_template(const config::RunConfig& config, const text::Tokenizer& tokenizer);

// The tools of data.tools; none if it is not set.
struct Tools {
  std::string json;
  text::jinja::Value value;
};
Tools read_tools(const config::RunConfig& config);

// A template or a file of tools that is configured and cannot be read is a UserError, even if the data turn
// out to be plain text.
void check_chat_files(const config::RunConfig& config);

// Returns whether the tokenizer has a chat template that can be read; nullopt if it is not on this machine.
std::optional<bool> has_own_template(const config::RunConfig& config);

// Returns a note if the data are plain text although the tokenizer has a chat template; otherwise empty.
std::string unused_template_note(const config::RunConfig& config, bool has_chats);

}  // namespace dpo::data
