#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/open_file.h"
#include "base/progress_count.h"
#include "base/user_path.h"

namespace dpo {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Returns a hint for the message that config.json or adapter_config.json is missing, or "".
std::string model_hint(const std::filesystem::path& path) {
  constexpr const char* kModel = "config.json";
  constexpr const char* kAdapter = "adapter_config.json";
  const std::filesystem::path folder = path.parent_path();
  std::error_code ignored;
  if (path.filename() == kModel && std::filesystem::exists(folder / kAdapter, ignored))
    return fmt::format(
        "; {0} is an adapter: 'dpo merge MODEL {0} OUT' merges it into its model, 'dpo score' and 'dpo "
        "sample' accept it as --adapter {0}, and a run can start from it with model.archive={0}",
        folder.string());
  return path.filename() == kModel || path.filename() == kAdapter ? run_folder_hint(folder) : "";
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, const std::string& what, std::size_t limit) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw UserError(fmt::format("{}: {} is a folder, expected a file", what, path.string()));
  check_regular(path, what);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const int reason = errno;
    throw UserError(fmt::format("{}: cannot read {}: {}{}", what, path.string(), std::strerror(reason),
                                model_hint(path)));
  }
  std::string text;
  // Reads by pieces, because the size of a pipe or of /proc files is not known in advance.
  char piece[1 << 16];
  while (in.read(piece, sizeof piece) || in.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(in.gcount()));
    count_progress();
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
    if (part.empty() || part == "." || part == "..") return false;  // empty: an absolute path or a folder
    begin = end + 1;
  }
  return true;
}

MappedFile::MappedFile(const std::filesystem::path& path, const std::string& what) {
  const auto fail = [&](const std::string& why) {
    throw UserError(fmt::format("{}: cannot read {}: {}", what, path.string(), why));
  };
  check_regular(path, what);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("not a regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // mapping an empty file fails
  void* address = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.number(), 0);
  if (address == MAP_FAILED) fail(std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PositionedFile::PositionedFile(std::filesystem::path path, std::string what)
    : path_(std::move(path)), what_(std::move(what)) {
  check_regular(path_, what_);
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw UserError(fmt::format("{}: cannot read {}: {}", what_, path_.string(), std::strerror(errno)));
}

PositionedFile::~PositionedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)),
      what_(std::move(other.what_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

PositionedFile& PositionedFile::operator=(PositionedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(what_, other.what_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void PositionedFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw UserError(fmt::format("{}: reading {} at byte {} failed: {}", what_, path_.string(), offset,
                                  count == 0 ? "the file ends there" : std::strerror(errno)));
    count_progress();
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void PositionedFile::prefetch(std::uint64_t offset, std::uint64_t size) const {
  posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

}  // namespace dpo
