// Gets what is needed of a repository into the cache.
#pragma once

#include <filesystem>

#include "hub/client.h"
#include "hub/needed_files.h"
#include "hub/repository.h"

namespace dpo::hub {

// Whether all that is wanted is in the cache, as far as the cache can tell. Makes no request.
bool is_cached(const Repository& repository, const Wanted& wanted);

// Downloads what is missing of the revision as it is on the hub now, and returns the folder of the files.
// A data set without data files is read from the hub's Parquet copy of it. Offline, what is in the cache has
// to suffice.
std::filesystem::path fetch(const Repository& repository, const Wanted& wanted, const Listener& listener);

// The same if `name` is not a file or folder of this machine and something is missing. If nothing can be
// downloaded (offline, or built without libcurl) and nothing is cached, does nothing: those who read the
// files say what is missing.
void fetch_missing(RepositoryKind kind, const std::string& name, const Wanted& wanted,
                   const Listener& listener);

}  // namespace dpo::hub
