// Downloads file contents into the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "hub/client.h"

namespace dpo::hub {

// Counts the bytes of a download or an upload that uses several threads.
class Meter {
 public:
  Meter(const Listener& listener, std::string what, std::int64_t all)
      : listener_(listener), what_(std::move(what)), all_(all) {}

  void add(std::int64_t bytes);  // negative for bytes that must be transferred again

 private:
  const Listener& listener_;
  std::string what_;
  std::int64_t all_, done_ = 0;
  std::mutex mutex_;
};

// Adds the files of a commit to its snapshot. Contents in the cache are linked; others are downloaded on
// several connections and checked against their hashes. Partial downloads stay in the cache, and the next
// call continues them.
void download_files(Client& client, const std::string& commit, const std::vector<HubFile>& files,
                    const Listener& listener);

}  // namespace dpo::hub
