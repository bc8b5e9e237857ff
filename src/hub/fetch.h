// Gets what is needed of a repository into the cache.
#pragma once

#include <filesystem>
#include <span>

#include "hub/cache.h"
#include "hub/client.h"
#include "hub/needed_files.h"
#include "hub/repository.h"

namespace dpo::hub {

// Whether the cache has all that is wanted, as far as it can tell. Makes no request. Of a data set whose list
// of files is not cached it cannot tell.
bool is_cached(const Repository& repository, const Wanted& wanted);

// Downloads what is missing of the revision as it is on the hub now, and returns the folder of the files.
// A data set without data files is read from the hub's Parquet copy of it. Offline, what is in the cache has
// to suffice.
std::filesystem::path fetch(const Repository& repository, const Wanted& wanted, const Listener& listener);

// Downloads what is missing of the cached commit, or of the newest one if none is cached, unless `name` is a
// file or folder of this machine. If the hub cannot be reached, what is in the cache may suffice, with a
// note. If nothing can be downloaded (offline, or built without libcurl) and nothing is cached, does nothing:
// those who read the files say what is missing.
void fetch_missing(RepositoryKind kind, const std::string& name, const Wanted& wanted,
                   const Listener& listener);

struct Target {
  RepositoryKind kind = RepositoryKind::Model;
  std::string name;
  Wanted wanted;
};

// The commits that fetch_missing would use, added to those that are known already.
Commits find_commits(std::span<const Target> targets, Commits known, const Listener& listener);

}  // namespace dpo::hub
