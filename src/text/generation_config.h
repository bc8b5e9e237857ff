// Edits generation_config.json, which tells transformers and vLLM at which tokens generation stops.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace dpo::text {

inline constexpr const char* kGenerationConfig = "generation_config.json";

// The tokens that end an answer, and the one that pads a batch.
struct AnswerEnds {
  std::vector<Token> tokens;
  std::optional<Token> pad;
};

// Returns the "eos_token_id" of a JSON text: one id or a list of ids. Returns no ids if it has none.
std::vector<Token> eos_ids(const std::string& json);

// Returns the file's text with these ends added to its own, and with the padding token if it names none.
// `file` is empty, or not JSON, if the model has no such file; `config` is the model's config.json, which
// transformers then reads. Returns `file` unchanged if it contains all of this.
std::string with_ends(const std::string& file, const std::string& config, const AnswerEnds& ends);

}  // namespace dpo::text
