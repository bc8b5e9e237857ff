#include "base/secret.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <new>
#include <span>
#include <system_error>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/sha256.h"

namespace dpo {

std::string random_hex(std::size_t bytes) {
  std::vector<std::byte> drawn(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count = ::getrandom(drawn.data() + done, bytes - done, 0);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return to_hex(drawn);
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum;
  unsigned size = 0;
  if (!::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(), sum.data(), &size))
    throw std::bad_alloc();
  return to_hex(std::as_bytes(std::span(sum).first(size)));
}

std::string make_token() { return random_hex(16); }

bool is_same_secret(std::string_view a, std::string_view b) {
  Sha256 of_a, of_b;
  of_a.add(a), of_b.add(b);
  const Sha256::Sum sum_a = of_a.finish(), sum_b = of_b.finish();
  return ::CRYPTO_memcmp(sum_a.data(), sum_b.data(), sum_a.size()) == 0;
}

}  // namespace dpo
