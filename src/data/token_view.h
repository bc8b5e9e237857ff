#pragma once

#include <string>

#include "data/example.h"
#include "text/tokenizer.h"

namespace dpo::data {

// Returns the text on one line, with control characters escaped as in JSON. Bytes that are not UTF-8 become
// U+FFFD.
std::string escaped(const std::string& text);

// Formats the end of the prompt and the first response token by token. Tokens that are trained on are in
// brackets. Long responses are shortened in the middle.
std::string token_view(const Example& example, const text::Tokenizer& tokenizer);

}  // namespace dpo::data
