#include "track/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/open_file.h"
#include "base/output_files.h"

namespace dpo::track {
namespace {

// Writes all of `bytes` at `offset`. Returns false if it could not.
bool write_at(int descriptor, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, std::string contents)
    : path_(std::move(path)), unwritten_(std::move(contents)) {
  create();
}

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t size)
    : path_(std::move(path)), written_(size), is_new_(false) {
  try_to_open();
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool AppendFile::append(std::string_view record) {
  unwritten_ += record;
  if (descriptor_ < 0) try_to_open();
  if (descriptor_ >= 0 && !is_written()) write_on();
  return is_written();
}

void AppendFile::try_to_open() {
  try {
    is_new_ ? create() : open_existing();
  } catch (const UserError&) {
    // The path may be a link, for example. is_written() is then false, as it is on a full disk.
  }
}

void AppendFile::create() {
  try {
    std::filesystem::create_directories(path_.parent_path());
    write_file(path_, unwritten_);
    descriptor_ = open_to_write(path_, O_WRONLY, Owner::anyone);
  } catch (const std::exception&) {
    return;
  }
  if (descriptor_ < 0) return;
  written_ = unwritten_.size();
  unwritten_.clear();
}

void AppendFile::open_existing() {
  descriptor_ = open_to_write(path_, O_WRONLY, Owner::anyone);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(written_)) == 0) return;
  ::close(std::exchange(descriptor_, -1));
}

void AppendFile::write_on() {
  if (write_at(descriptor_, unwritten_, written_)) {
    written_ += unwritten_.size();
    unwritten_.clear();
  } else if (::ftruncate(descriptor_, static_cast<off_t>(written_)) != 0) {
    // Part of a record remains at the end. The next attempt overwrites it.
  }
}

}  // namespace dpo::track
