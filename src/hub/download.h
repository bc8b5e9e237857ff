// Downloads of file contents into the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "hub/client.h"

namespace dpo::hub {

// Counts the bytes of a download that has several threads.
class Meter {
 public:
  Meter(const Listener& listener, std::string what, std::int64_t all)
      : listener_(listener), what_(std::move(what)), all_(all) {}

  void add(std::int64_t bytes);  // negative: bytes that have to be downloaded again

 private:
  const Listener& listener_;
  std::string what_;
  std::int64_t all_, done_ = 0;
  std::mutex mutex_;
};

// Makes the files of a commit part of its snapshot: contents that are in the cache are linked, others are
// downloaded, on several connections at once, and checked against their hashes. What an interrupted download
// has got stays in the cache and is used by the next.
void download_files(Client& client, const std::string& commit, const std::vector<HubFile>& files,
                    const Listener& listener);

}  // namespace dpo::hub
