#include "report/tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace dpo::report {
namespace {

constexpr std::size_t kPiece = 4u << 20;     // bytes per read, at most
constexpr std::size_t kLongest = 16u << 20;  // bytes of a line; longer lines are skipped
constexpr std::size_t kRemembered = 64;      // bytes before the offset, compared to notice a replaced file

class Descriptor {
 public:
  // O_NONBLOCK, because a pipe may have this name.
  explicit Descriptor(const std::filesystem::path& file)
      : number_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// Returns the bytes at `offset`, or fewer if the file ends there or cannot be read.
std::string read_at(int descriptor, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        ::pread(descriptor, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

// A resumed run replaces the file by its beginning. The new file may be longer than the part that was read,
// and may have the inode number of the old one, so its bytes are compared too.
bool Tail::continues(int descriptor, std::uint64_t size, dev_t device, ino_t inode) const {
  return device == device_ && inode == inode_ && size >= offset_ &&
         read_at(descriptor, offset_ - last_.size(), last_.size()) == last_;
}

void Tail::add_lines(std::string_view bytes, Part& part) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    pending_ += bytes.substr(0, end);
    if (pending_.size() > kLongest) pending_.clear(), skips_ = true;
    if (end == bytes.npos) return;
    if (!skips_) part.lines.push_back(std::move(pending_));
    pending_.clear();
    skips_ = false;
    bytes.remove_prefix(end + 1);
  }
}

Tail::Part Tail::next() {
  Part part;
  const Descriptor file(file_);
  struct stat facts {};
  if (file.number() < 0 || ::fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) return part;
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (!continues(file.number(), size, facts.st_dev, facts.st_ino)) {
    part.restarted = offset_ > 0;
    *this = Tail(file_, most_);
    device_ = facts.st_dev, inode_ = facts.st_ino;
    if (size > most_) offset_ = size - most_, skips_ = true;
  }
  const std::string bytes = read_at(
      file.number(), offset_, static_cast<std::size_t>(std::min<std::uint64_t>(size - offset_, kPiece)));
  offset_ += bytes.size();
  last_ += bytes;
  last_.erase(0, last_.size() - std::min(last_.size(), kRemembered));
  add_lines(bytes, part);
  part.more = !bytes.empty() && offset_ < size;
  return part;
}

void require_readable(const std::filesystem::path& file, const std::string& what) {
  const Descriptor opened(file);
  struct stat facts {};
  const bool is_open = opened.number() >= 0 && ::fstat(opened.number(), &facts) == 0;
  if (is_open && S_ISREG(facts.st_mode)) return;
  throw UserError(fmt::format("{}: cannot read {}: {}", what, file.string(),
                              is_open ? "not a file" : std::strerror(errno)));
}

}  // namespace dpo::report
