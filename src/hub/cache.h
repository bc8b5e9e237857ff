// hub: models and data sets of the Hugging Face hub.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dpo::hub {

enum class RepositoryKind { Model, Dataset };

// The folder where the Hugging Face libraries of this user keep what they fetched.
std::filesystem::path cache_folder();

// Whether a text can be the name of a repository: NAME or OWNER/NAME.
bool is_repository_name(const std::string& name);

// The files of a repository in the cache, as of its main branch; nothing if it is not there. They are links
// to where the contents are, and possibly not all of the repository's.
std::optional<std::filesystem::path> cached_snapshot(RepositoryKind kind, const std::string& repository);

// Whether a name that is nothing on this machine may be one of the hub's: not a path, nor a file's name.
bool may_be_on_the_hub(const std::string& name);

// The command that puts a repository (or some of its files) into the cache.
std::string fetch_command(RepositoryKind kind, const std::string& repository, const std::string& files = "");

}  // namespace dpo::hub
