// Files that the configuration names for conversations: the chat template and the tools.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "text/chat_template.h"
#include "text/jinja/value.h"
#include "text/tokenizer.h"

namespace dpo::data {

// Returns the configured template or the tokenizer's own. Throws a UserError that explains how to choose one
// if there is none.
text::ChatTemplate find_template(const config::RunConfig& config, const text::Tokenizer& tokenizer);

// The tools of data.tools; empty if it is not set.
struct Tools {
  std::string json;
  text::jinja::Value value;
};
Tools read_tools(const config::RunConfig& config);

// Throws a UserError for a configured template or tools file that cannot be read, even if the data turns out
// to be plain text.
void check_chat_files(const config::RunConfig& config);

// Returns whether the tokenizer has a chat template that can be read; nullopt if it is not on this machine.
std::optional<bool> has_own_template(const config::RunConfig& config);

// Returns a note if the data is plain text although the tokenizer has a chat template; otherwise empty.
std::string unused_template_note(const config::RunConfig& config, bool has_chats);

}  // namespace dpo::data
