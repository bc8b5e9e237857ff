#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace dpo::hub {

// Computes the hash by which the hub identifies a file's content, piece by piece: SHA-256 for a large file,
// git's SHA-1 for a small one.
class ContentHash {
 public:
  // `expected` selects the hash: 64 hexadecimal digits mean SHA-256, anything else SHA-1. `size` is the
  // file's size in bytes.
  ContentHash(std::string expected, std::int64_t size);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void add(std::string_view bytes);
  void restart();
  // Must be called at most once, after all bytes; restart() makes the object usable again.
  std::string finish();
  bool matches();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  std::string expected_;
  std::int64_t size_;
};

// Returns git's SHA-1 of a file's content, by which the hub identifies a small file.
std::string git_sha1(std::string_view content);

}  // namespace dpo::hub
