// Downloads the files that dpo needs from a repository into the cache.
#pragma once

#include <filesystem>
#include <span>

#include "hub/cache.h"
#include "hub/client.h"
#include "hub/needed_files.h"
#include "hub/repository.h"

namespace dpo::hub {

// Returns true if the cache has all wanted files, as far as it can tell without a request. It cannot tell for
// a data set whose list of files is not cached.
bool is_cached(const Repository& repository, const Wanted& wanted);

// Downloads missing files of the revision's newest commit and returns their folder. A data set without data
// files is read from the hub's Parquet copy of it. Offline, the cached files must suffice.
std::filesystem::path fetch(const Repository& repository, const Wanted& wanted, const Listener& listener);

// Downloads missing files of the cached commit, or of the newest one if none is cached, unless `name` is a
// file or folder of this machine. If the hub cannot be reached but the cached files suffice, they are used
// with a note. Does nothing if downloads are impossible (offline, or built without libcurl) and nothing is
// cached: the code that reads the files then reports what is missing.
void fetch_missing(RepositoryKind kind, const std::string& name, const Wanted& wanted,
                   const Listener& listener);

struct Target {
  RepositoryKind kind = RepositoryKind::Model;
  std::string name;
  Wanted wanted;
};

// Returns `known` plus the commits that fetch_missing would use.
Commits find_commits(std::span<const Target> targets, Commits known, const Listener& listener);

}  // namespace dpo::hub
