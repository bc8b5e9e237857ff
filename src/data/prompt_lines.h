// Reads prompts and responses for `dpo sample` and `dpo score`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/columns.h"
#include "data/texts.h"

namespace dpo::data {

// Calls `visit` for every line of a file (plain, gzip or zstd; "-" is stdin) that is not blank. `origin` is
// FILE:LINE.
void for_each_line(const std::string& file,
                   const std::function<void(const std::string& line, const std::string& origin)>& visit);

// A prompt with its responses, as text or as messages.
struct PromptLine {
  PromptText text;
  std::string origin;  // FILE:LINE
};

// Reads rows of every form that training reads, and lists of responses without scores. The file name
// determines the format; stdin ("-") and files with other names are JSON lines. Throws a UserError for a row
// that cannot be read.
std::vector<PromptLine> read_responses(const std::string& file, const ColumnNames& names = {});

// Reads lines of {"prompt": P} if the first line is a JSON object; otherwise each line is a prompt. Throws a
// UserError if P is messages.
std::vector<std::string> read_prompts(const std::string& file);

// Reads the lines of read_prompts as conversations without responses. P may be a list of messages, which a
// line may also have as "messages". A text becomes a message of the user.
std::vector<PromptLine> read_conversations(const std::string& file);

}  // namespace dpo::data
