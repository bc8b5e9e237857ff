#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace dpo::hub {

// The hash by which the hub knows a file's content, computed piece by piece: SHA-256 of a large file, git's
// SHA-1 of a small one.
class ContentHash {
 public:
  // `expected`: 64 hexadecimal digits for SHA-256, others for SHA-1. `size`: of the file.
  ContentHash(std::string expected, std::int64_t size);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void add(std::string_view bytes);
  void restart();
  // Once, after all bytes; restart() makes it usable again.
  std::string finish();
  bool matches();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  std::string expected_;
  std::int64_t size_;
};

// Git's SHA-1 of a file's content, by which the hub knows a small file.
std::string git_sha1(std::string_view content);

}  // namespace dpo::hub
