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

// Called now and then with the number of tokenized prompts of a source, and their total.
using TokenizeProgress = std::function<void(const std::string& source, std::int64_t done, std::int64_t all)>;

struct TokenCache {
  std::filesystem::path folder;         // where the token files are
  TokenizeProgress progress = {};       // may be empty
  std::vector<std::string> notes = {};  // for the user: a damaged file, skipped rows
};

// The token that ends every response.
text::Token end_of_text(const text::Tokenizer& tokenizer);

// The tokens of a source if they are in the cache; writes nothing.
std::optional<TokenFile> find_tokens(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer, TokenCache& cache);

// The tokens of a source: from the cache, or read, tokenized and cached. Of several processes that ask at
// once, one works and the others wait for it.
TokenFile load_tokens(const Source& source, const config::RunConfig& config, const text::Tokenizer& tokenizer,
                      TokenCache& cache);

}  // namespace dpo::data
