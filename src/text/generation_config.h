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

// Returns the text of generation_config.json with these ends added to its ids, and with a padding token if it
// has none. An empty or invalid `file` counts as absent. Values that `file` lacks are first taken from
// `config`, the model's config.json, as transformers does. Returns `file` unchanged if it has all of this.
std::string with_ends(const std::string& file, const std::string& config, const AnswerEnds& ends);

}  // namespace dpo::text
