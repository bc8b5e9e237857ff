#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/source.h"
#include "data/token_file.h"
#include "text/tokenizer.h"

namespace dpo::data {

// Told now and then how many prompts of a source are tokenized, out of how many; null: nobody listens.
using Progress = std::function<void(const std::string& source, std::int64_t done, std::int64_t all)>;

struct TokenCache {
  std::filesystem::path folder;  // where the token files are
  Progress progress = {};
  std::vector<std::string> notes = {};  // what is worth telling: a damaged file, rows that were left out
};

// The token that every response ends with.
text::Token end_of_text(const text::Tokenizer& tokenizer);

// The tokens of a source where they are in the cache, which is only read.
std::optional<TokenFile> find_tokens(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer, TokenCache& cache);

// The tokens of a source: from the cache if they are there, otherwise read, tokenized and put there. Several
// processes may ask at once: one works, the others wait for it.
TokenFile load_tokens(const Source& source, const config::RunConfig& config, const text::Tokenizer& tokenizer,
                      TokenCache& cache);

}  // namespace dpo::data
