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

// Called from time to time with the number of tokenized prompts of a source, and their total.
using TokenizeProgress = std::function<void(const std::string& source, std::int64_t done, std::int64_t all)>;

struct TokenCache {
  std::filesystem::path folder;         // contains the token files
  TokenizeProgress progress = {};       // may be empty
  std::vector<std::string> notes = {};  // for the user: a damaged file, skipped rows
};

// Returns the token that ends every response.
text::Token end_of_text(const text::Tokenizer& tokenizer);

// Returns the tokens of a source if they are in the cache. Writes nothing.
std::optional<TokenFile> find_tokens(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer, TokenCache& cache);

// Returns the tokens of a source from the cache, or reads, tokenizes and caches them. If several processes
// ask at the same time, one does the work and the others wait for it.
TokenFile load_tokens(const Source& source, const config::RunConfig& config, const text::Tokenizer& tokenizer,
                      TokenCache& cache);

}  // namespace dpo::data
