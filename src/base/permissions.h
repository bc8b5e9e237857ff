#pragma once

#include <sys/types.h>

#include <filesystem>

namespace dpo {

// The permissions that new files and folders of this process do not have. The system tells them only by
// setting others, which threads that make files at the same time would notice: it is asked once.
mode_t permission_mask();

// Makes a folder, with its parents, that no other user may write to. One of another user is a UserError: who
// owns a folder decides what is in it.
void make_own_folder(const std::filesystem::path& folder);

// Whether something is this user's own; false where nothing is.
bool is_own(const std::filesystem::path& path);

}  // namespace dpo
