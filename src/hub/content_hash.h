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
  // `expected`: 64 or 40 hexadecimal digits. `size`: of the file.
  ContentHash(std::string expected, std::int64_t size);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void add(std::string_view bytes);
  void restart();
  bool matches();  // once, after all bytes; restart() makes it usable again

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  std::string expected_;
  std::int64_t size_;
};

}  // namespace dpo::hub
