#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace dpo {

// The whole file. A missing, unreadable or absurdly large file (over `limit` bytes) is a UserError that
// names it; `what` says what the file is for ("the configuration").
std::string read_text_file(const std::filesystem::path& path, const std::string& what,
                           std::size_t limit = 64u << 20);

// Whether a name that a file gives is one of a file in its own folder or below: not absolute, and without
// ".." and the like.
bool stays_in_folder(std::string_view name);

// Puts on disk what was made, renamed or removed in a folder. A UserError if the disk fails.
void sync_folder(const std::filesystem::path& folder);

}  // namespace dpo
