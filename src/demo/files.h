#pragma once

#include <filesystem>

#include "demo/task.h"

namespace dpo::demo {

// Writes the task as a user would provide it: conversations/ and preferences/ with train.jsonl and
// test.jsonl, and blank/ with config.json and the tokenizer of a small GPT-NeoX without weights.
void write_files(const std::filesystem::path& folder, const Task& task);

}  // namespace dpo::demo
