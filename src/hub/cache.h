// The cache folder of the Hugging Face libraries, laid out as the Python client does it:
//   models--ORG--NAME/blobs/ETAG            contents, named by their hash
//   models--ORG--NAME/snapshots/COMMIT/...  links to the contents, under the names of the files
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

// Returns "models--org--name".
std::string folder_name(const Repository& repository);
std::filesystem::path folder_of(const Repository& repository);

// Commits of repositories, keyed by the names that 'dpo fetch' takes.
using Commits = std::map<std::string, std::string>;

// Pins these commits from now on, whatever branches and tags say. All processes of a run, and a resumed run,
// then load the same files.
void use_commits(Commits commits);

// Returns the cached commit of a branch or tag, or nullopt if it is not cached.
std::optional<std::string> cached_branch(const Repository& repository);

// Returns the commit of a repository's revision: the pinned one (use_commits), else the cached one.
std::optional<std::string> cached_commit(const Repository& repository);

// Returns the folder of a repository's cached files (ORG/NAME or ORG/NAME@REVISION), or nullopt if it is not
// cached. The files are links, and some files of the repository may be missing.
std::optional<std::filesystem::path> cached_snapshot(RepositoryKind kind, const std::string& name);

// Returns all files of a commit, or nullopt if the list is not cached.
std::optional<std::vector<HubFile>> cached_tree(const Repository& repository, const std::string& commit);
// The next two functions do nothing if the cache cannot be written, because these files only save requests.
void write_tree(const Repository& repository, const std::string& commit, const std::vector<HubFile>& files);
void write_ref(const Repository& repository, const std::string& commit);

// Creates a folder of the cache and its parents.
void make_folder(const std::filesystem::path& folder);

// Makes snapshots/COMMIT/path a relative link to blobs/etag.
void link_blob(const Repository& repository, const std::string& commit, const std::string& path,
               const std::string& etag);

// Waits for other processes that download the same content, and then excludes them. The Python client uses
// the same lock. On network disks without locks it excludes no process.
class BlobLock {
 public:
  // `wait` is called repeatedly while another process has the lock; it may throw.
  BlobLock(const Repository& repository, const std::string& etag, const std::function<void()>& wait);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace dpo::hub
