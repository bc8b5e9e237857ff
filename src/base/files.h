#pragma once

#include <filesystem>
#include <string>

namespace dpo {

// The whole file. A missing, unreadable or absurdly large file (over `limit` bytes) is a UserError that
// names it; `what` says what the file is for ("the configuration").
std::string read_text_file(const std::filesystem::path& path, const std::string& what,
                           std::size_t limit = 64u << 20);

}  // namespace dpo
