// Uploads large files to the hub's LFS store, each in one request or in parts.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "hub/client.h"
#include "hub/upload_messages.h"

namespace dpo::hub {

// A local file that is to be pushed.
struct LocalFile {
  std::string path;                 // in the repository
  std::filesystem::path file = {};  // empty: the content is `text`
  std::string text = {};
  std::int64_t size = 0;
  std::string sha256 = {};  // empty if unknown; push() checks it
};

// Reads the content of a LocalFile.
class ContentReader {
 public:
  explicit ContentReader(const LocalFile& file);

  // Fills all of `into`. Throws UserError if the file ends earlier.
  void read(std::int64_t offset, std::span<char> into) const;

 private:
  const LocalFile& file_;
  std::optional<PositionedFile> opened_;
};

// Sends the contents that the hub does not have, on several connections at once, and returns how many bytes
// they have. Contents that have arrived stay there, even if this is interrupted.
std::int64_t upload_contents(Client& client, const std::vector<LocalFile>& files, const Listener& listener);

}  // namespace dpo::hub
