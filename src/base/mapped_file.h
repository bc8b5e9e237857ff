#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace dpo {

// A whole file as bytes, read from disk as they are touched. The file must not be changed meanwhile.
class MappedFile {
 public:
  // What cannot be opened or mapped is a UserError; `what` says what the file is for ("weights").
  MappedFile(const std::filesystem::path& path, const std::string& what);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dpo
