// Translates chat templates for Ollama, which renders conversations with Go's templates.
#pragma once

#include <optional>
#include <string>

#include "text/chat_template.h"

namespace dpo::text {

// Returns a Go template that renders conversations with an optional system message, questions and answers as
// `chat_template` does. The pieces of text between the messages are taken from rendered examples; the result
// is compared with other examples. Returns nullopt if the template does more than write pieces of text
// between messages, or writes the date. `bos` is a text that the runtime itself puts first, or "".
std::optional<std::string> ollama_template(const ChatTemplate& chat_template, const std::string& bos);

}  // namespace dpo::text
