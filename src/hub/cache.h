// hub: models and data sets of the Hugging Face hub.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dpo::hub {

enum class RepositoryKind { Model, Dataset };

// The folder in which the Hugging Face libraries cache their downloads.
std::filesystem::path cache_folder();

// Whether a text can be the name of a repository: NAME or OWNER/NAME.
bool is_repository_name(const std::string& name);

// The cached files of a repository's main branch; nullopt if it is not cached. They are links to the
// contents, and possibly not all files of the repository.
std::optional<std::filesystem::path> cached_snapshot(RepositoryKind kind, const std::string& repository);

// Whether a name that is not found on this machine may be a repository of the hub: not a path or file name.
bool may_be_on_the_hub(const std::string& name);

// The command that downloads a repository (or some of its files) into the cache.
std::string fetch_command(RepositoryKind kind, const std::string& repository, const std::string& files = "");

}  // namespace dpo::hub
