// hub: downloads and uploads models and data sets of the Hugging Face hub, and reads its local cache.
#pragma once

#include <optional>
#include <string>

namespace dpo::hub {

enum class RepositoryKind { Model, Dataset };

struct Repository {
  RepositoryKind kind = RepositoryKind::Model;
  std::string id;                 // NAME or ORG/NAME
  std::string revision = "main";  // a branch, a tag or a commit
};

// Branch in which the hub keeps a Parquet copy of a data set.
inline constexpr const char* kParquetRevision = "refs/convert/parquet";

// Returns true if `name` has the form of a repository name: NAME or OWNER/NAME.
bool is_repository_name(const std::string& name);

// Parses ORG/NAME or ORG/NAME@REVISION; nullopt if `name` is neither.
std::optional<Repository> parse_repository(RepositoryKind kind, const std::string& name);

// Returns "org/name", or "org/name@revision" if the revision is not main.
std::string to_string(const Repository& repository);

// Returns the name that 'dpo fetch' takes: "datasets/" before the name of a data set.
std::string fetch_name(const Repository& repository);

// Returns true for a commit hash: 40 hexadecimal digits.
bool is_commit(const std::string& text);

// Returns true if `name` ends like a file name: "x.jsonl".
bool is_file_name(const std::string& name);

// For a folder name that does not exist, returns "; did you mean 'pythia-70m'?" with the most similar sibling
// folder that has a model or tokenizer, or "".
std::string did_you_mean_folder(const std::string& name);

// Returns true if a name that does not exist on this machine may be a repository of the hub, because it does
// not look like a path or file name.
bool may_be_on_the_hub(const std::string& name);

// Returns the command that downloads a repository into the cache.
std::string fetch_command(RepositoryKind kind, const std::string& name);

}  // namespace dpo::hub
