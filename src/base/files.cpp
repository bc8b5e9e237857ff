#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "base/user_path.h"

namespace dpo {

std::string read_text_file(const std::filesystem::path& path, const std::string& what, std::size_t limit) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw UserError(fmt::format("{}: {} is a folder, expected a file", what, path.string()));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const int reason = errno;
    // The first file that is read of a model.
    const std::string hint = path.filename() == "config.json" ? run_folder_hint(path.parent_path()) : "";
    throw UserError(
        fmt::format("{}: cannot read {}: {}{}", what, path.string(), std::strerror(reason), hint));
  }
  std::string text;
  // Read by pieces: the size of a pipe or of /proc files is not known beforehand.
  char piece[1 << 16];
  while (in.read(piece, sizeof piece) || in.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit)
      throw UserError(fmt::format("{}: {} is larger than {} bytes", what, path.string(), limit));
  }
  if (in.bad()) throw UserError(fmt::format("{}: reading {} failed", what, path.string()));
  return text;
}

bool stays_in_folder(std::string_view file) {
  if (file.find('\0') != file.npos) return false;
  for (std::size_t begin = 0; begin <= file.size();) {
    const std::size_t end = std::min(file.find('/', begin), file.size());
    const std::string_view part = file.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;  // empty: absolute, or a folder
    begin = end + 1;
  }
  return true;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path place = folder.empty() ? "." : folder;
  const int descriptor = ::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // some file systems do not open folders; they have nothing to sync either
  const bool failed = ::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int reason = errno;
  ::close(descriptor);
  if (failed)
    throw UserError(fmt::format("writing the folder {} failed: {}", place.string(), std::strerror(reason)));
}

}  // namespace dpo
