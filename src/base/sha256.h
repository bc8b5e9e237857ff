#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dpo {

// Computes a SHA-256 hash piece by piece.
class Sha256 {
 public:
  using Sum = std::array<std::byte, 32>;

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  Sum finish();  // call only once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string to_hex(std::span<const std::byte> bytes);

// Returns the SHA-256 of a file's contents.
Sha256::Sum sha256_of_file(const std::filesystem::path& path);

}  // namespace dpo
