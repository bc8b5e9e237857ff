#include "hub/partial_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/open_file.h"
#include "base/output_files.h"
#include "base/stop.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".incomplete";

std::string this_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

fs::path own_path(const fs::path& blob) {
  return fmt::format("{}.{}-{}-{:08x}{}", blob.string(), this_host(), ::getpid(), std::random_device()(),
                     kEnding);
}

bool is_running(const std::string& process) {
  pid_t id = 0;
  std::from_chars(process.data(), process.data() + process.size(), id);
  return id > 0 && (::kill(id, 0) == 0 || errno != ESRCH);
}

// Returns true if a process may still write a file: a running one of this machine, or one of another machine
// that wrote to it in the last minutes, which is longer than any wait between two attempts.
bool may_be_in_use(const fs::path& file, const std::string& host, const std::string& process) {
  if (host == this_host()) return is_running(process);
  constexpr auto kLongestWait = std::chrono::minutes(15);
  std::error_code failed;
  const auto written = fs::last_write_time(file, failed);
  return failed || fs::file_time_type::clock::now() - written < kLongestWait;
}

}  // namespace

std::optional<fs::path> find_partial(const fs::path& blob) {
  const std::string prefix = blob.filename().string() + ".";
  std::error_code none;
  for (fs::directory_iterator at(blob.parent_path(), none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kEnding)) continue;
    const std::size_t random = name.rfind('-');
    const std::size_t process = random == name.npos ? name.npos : name.rfind('-', random - 1);
    if (process == name.npos || process < prefix.size()) continue;  // a file of the Python client
    // In a shared cache, any user can give such a name to a link.
    if (!may_write_to(at->path(), Owner::this_user)) continue;
    if (!may_be_in_use(at->path(), name.substr(prefix.size(), process - prefix.size()),
                       name.substr(process + 1, random - process - 1)))
      return at->path();
  }
  return std::nullopt;
}

PartialFile::PartialFile(fs::path blob, const std::string& expected_hash, std::int64_t whole_size)
    : blob_(std::move(blob)),
      path_(own_path(blob_)),
      hash_(expected_hash, whole_size),
      whole_size_(whole_size) {
  open_leftover();
  if (descriptor_ < 0) create();
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// If several processes want the file, only one of them can rename it.
void PartialFile::open_leftover() {
  const auto found = find_partial(blob_);
  if (!found || ::access(found->c_str(), R_OK | W_OK) != 0) return;
  if (::rename(found->c_str(), path_.c_str()) != 0) return;
  descriptor_ = open_to_write(path_, O_RDWR, Owner::this_user);
  if (descriptor_ >= 0) read();
}

void PartialFile::create() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create");
}

void PartialFile::read() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("read");
  if (status.st_size > whole_size_) return restart();
  std::vector<char> piece(1u << 20);
  while (size_ < status.st_size) {
    const ssize_t count = ::pread(descriptor_, piece.data(), piece.size(), size_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("read");
    if (stop_requested()) throw Stopped();
    hash_.add({piece.data(), static_cast<std::size_t>(count)});
    size_ += count;
  }
}

void PartialFile::append(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t count = ::pwrite(descriptor_, rest.data(), rest.size(), size_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write");
    hash_.add(rest.substr(0, static_cast<std::size_t>(count)));
    size_ += count;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

void PartialFile::remove() {
  ::close(descriptor_);
  descriptor_ = -1;
  ::unlink(path_.c_str());
}

void PartialFile::restart() {
  remove();
  create();
  size_ = 0;
  hash_.restart();
}

void PartialFile::finish() {
  if (!sync_to_disk(descriptor_)) fail("sync");
  // Without working locks, another process may have finished the same file.
  std::error_code none;
  if (::rename(path_.c_str(), blob_.c_str()) != 0 && !fs::exists(blob_, none)) fail("rename");
}

void PartialFile::fail(const char* doing) const {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT;
  throw UserError(
      fmt::format("Hugging Face cache: cannot {} {}: {}{}", doing, path_.string(), std::strerror(error),
                  full ? "; what was downloaded is kept and continued: free some space and try again, or set "
                         "HF_HUB_CACHE=DIR to a folder on another disk"
                       : "; HF_HUB_CACHE=DIR uses another folder"));
}

}  // namespace dpo::hub
