#include "base/sha256.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/error.h"
#include "base/open_file.h"
#include "base/progress_count.h"

namespace dpo {

struct Sha256::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (!context_->digest || EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
  count_progress();
}

Sha256::Sum Sha256::finish() {
  Sum sum{};
  unsigned size = 0;
  auto* const out = reinterpret_cast<unsigned char*>(sum.data());
  if (EVP_DigestFinal_ex(context_->digest, out, &size) != 1 || size != sum.size()) throw std::bad_alloc();
  return sum;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Sha256::Sum sha256_of_file(const std::filesystem::path& path) {
  check_regular(path, "reading");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  Sha256 hash;
  std::vector<char> piece(1u << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    hash.add(std::string_view(piece.data(), static_cast<std::size_t>(in.gcount())));
  if (in.bad()) throw UserError(fmt::format("reading {} failed", path.string()));
  return hash.finish();
}

}  // namespace dpo
