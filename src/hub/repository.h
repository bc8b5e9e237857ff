// hub: models and data sets of the Hugging Face hub: names, the local cache, downloads, uploads.
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

// The branch in which the hub keeps a Parquet copy of a data set.
inline constexpr const char* kParquetRevision = "refs/convert/parquet";

// Whether a text can be the name of a repository: NAME or OWNER/NAME.
bool is_repository_name(const std::string& name);

// ORG/NAME or ORG/NAME@REVISION; nullopt if it is neither.
std::optional<Repository> parse_repository(RepositoryKind kind, const std::string& name);

// "org/name", or "org/name@revision" if that is not the main branch.
std::string to_string(const Repository& repository);

// The same as 'dpo fetch' takes it: with "datasets/" before a data set.
std::string fetch_name(const Repository& repository);

// Whether a text is the name of a commit: 40 hexadecimal digits.
bool is_commit(const std::string& text);

// Whether a name ends as those of files do: "x.jsonl".
bool is_file_name(const std::string& name);

// "; did you mean 'pythia-70m'?", a folder beside it with a model or tokenizer, for a name of which there is
// no folder; or empty.
std::string did_you_mean_folder(const std::string& name);

// Whether a name that is not found on this machine may be a repository of the hub: not a path or file name.
bool may_be_on_the_hub(const std::string& name);

// The command that downloads a repository into the cache.
std::string fetch_command(RepositoryKind kind, const std::string& name);

}  // namespace dpo::hub
