// The folder in which the Hugging Face libraries cache downloads, laid out as the Python client does it:
//   models--ORG--NAME/blobs/ETAG            contents, by their hash
//   models--ORG--NAME/snapshots/COMMIT/...  links to them, by the names of the files
//   models--ORG--NAME/refs/REVISION         the commit of a branch or tag
//   models--ORG--NAME/trees/COMMIT.json     the list of a commit's files
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hub/answers.h"
#include "hub/repository.h"
#include "hub/settings.h"

namespace dpo::hub {

// "models--org--name"
std::string folder_name(const Repository& repository);
std::filesystem::path folder_of(const Repository& repository);

// Commits of repositories, by the names that 'dpo fetch' takes.
using Commits = std::map<std::string, std::string>;

// From now on these commits are used, whatever branches and tags say: all processes of a run, and a run that
// is resumed, load the same files.
void use_commits(Commits commits);

// The commit of a branch or tag by the cache; nullopt if that does not know it.
std::optional<std::string> cached_branch(const Repository& repository);

// The commit of a repository's revision, by use_commits, else by the cache.
std::optional<std::string> cached_commit(const Repository& repository);

// The cached files of a repository, ORG/NAME or ORG/NAME@REVISION; nullopt if it is not cached. They are
// links to the contents, and possibly not all files of the repository.
std::optional<std::filesystem::path> cached_snapshot(RepositoryKind kind, const std::string& name);

// All files of a commit; nullopt if the list is not cached.
std::optional<std::vector<HubFile>> cached_tree(const Repository& repository, const std::string& commit);
// These do nothing if the cache cannot be written: they only save requests.
void write_tree(const Repository& repository, const std::string& commit, const std::vector<HubFile>& files);
void write_ref(const Repository& repository, const std::string& commit);

// Creates a folder of the cache, with its parents.
void make_folder(const std::filesystem::path& folder);

// snapshots/COMMIT/path becomes a relative link to blobs/etag.
void link_blob(const Repository& repository, const std::string& commit, const std::string& path,
               const std::string& etag);

// Excludes other processes that download the same contents; waits for them. The Python client uses the same
// lock. Some network disks have no locks: nobody is excluded there.
class BlobLock {
 public:
  // `wait` is called again and again while another process has the lock; it may throw.
  BlobLock(const Repository& repository, const std::string& etag, const std::function<void()>& wait);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace dpo::hub
