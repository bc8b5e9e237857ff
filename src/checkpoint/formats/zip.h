#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace dpo::checkpoint {

// The files of a zip archive that are stored uncompressed, as PyTorch writes them: name to bytes. What is
// damaged, compressed or reaches beyond the archive is a UserError that begins with `origin`.
std::map<std::string, std::span<const std::byte>> read_stored_zip(std::span<const std::byte> archive,
                                                                  const std::string& origin);

}  // namespace dpo::checkpoint
