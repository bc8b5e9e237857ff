// Prompts and responses for `dpo sample` and `dpo score`.
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

// Rows of every form that training reads, and lists of responses without scores. The name of the file says
// its format; stdin ("-") and other names are JSON lines. A row that cannot be read is a UserError.
std::vector<PromptLine> read_responses(const std::string& file, const ColumnNames& names = {});

// Lines {"prompt": P}, if the first is a JSON object; otherwise each line is a prompt. Messages are a
// UserError.
std::vector<std::string> read_prompts(const std::string& file);

// The same as conversations, without responses: P may also be a list of messages, which a line may have as
// "messages" too; texts are messages of the user.
std::vector<PromptLine> read_conversations(const std::string& file);

}  // namespace dpo::data
