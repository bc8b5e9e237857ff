#include "hub/content_hash.h"

#include <array>
#include <cstddef>
#include <new>
#include <span>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/sha256.h"

namespace dpo::hub {

struct ContentHash::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
};

ContentHash::ContentHash(std::string expected, std::int64_t size)
    : context_(std::make_unique<Context>()), expected_(std::move(expected)), size_(size) {
  restart();
}

ContentHash::~ContentHash() = default;

void ContentHash::restart() {
  constexpr std::size_t kSha256Digits = 64;
  const bool large = expected_.size() == kSha256Digits;
  if (!context_->digest ||
      EVP_DigestInit_ex(context_->digest, large ? EVP_sha256() : EVP_sha1(), nullptr) != 1)
    throw std::bad_alloc();
  if (!large) add(fmt::format("blob {}", size_) + '\0');
}

void ContentHash::add(std::string_view bytes) {
  if (EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
}

std::string ContentHash::finish() {
  std::array<std::byte, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context_->digest, reinterpret_cast<unsigned char*>(sum.data()), &size) != 1)
    throw std::bad_alloc();
  return to_hex(std::span(sum).first(size));
}

bool ContentHash::matches() { return finish() == expected_; }

std::string git_sha1(std::string_view content) {
  ContentHash hash("", static_cast<std::int64_t>(content.size()));
  hash.add(content);
  return hash.finish();
}

}  // namespace dpo::hub
