#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/stop.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

fs::path tree_path(const Repository& repository, const std::string& commit) {
  return folder_of(repository) / "trees" / (commit + ".json");
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw UserError(
        fmt::format("Hugging Face cache: cannot create {}: {}; HF_HUB_CACHE=DIR uses another folder",
                    folder.string(), failed.message()));
}

std::string folder_name(const Repository& repository) {
  std::string name = repository.id;
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return (repository.kind == RepositoryKind::Model ? "models--" : "datasets--") + name;
}

fs::path folder_of(const Repository& repository) { return cache_folder() / folder_name(repository); }

std::optional<std::string> cached_commit(const Repository& repository) {
  if (is_commit(repository.revision)) return repository.revision;
  const fs::path ref = folder_of(repository) / "refs" / repository.revision;
  std::error_code none;
  if (!fs::is_regular_file(ref, none)) return std::nullopt;
  const std::string commit = read_text_file(ref, "Hugging Face cache", 200);
  const bool hex = !commit.empty() && commit.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex ? std::optional(commit) : std::nullopt;
}

std::optional<fs::path> cached_snapshot(RepositoryKind kind, const std::string& name) {
  const auto repository = parse_repository(kind, name);
  const auto commit = repository ? cached_commit(*repository) : std::nullopt;
  if (!commit) return std::nullopt;
  const fs::path snapshot = folder_of(*repository) / "snapshots" / *commit;
  std::error_code none;
  return fs::is_directory(snapshot, none) ? std::optional(snapshot) : std::nullopt;
}

std::optional<std::vector<HubFile>> cached_tree(const Repository& repository, const std::string& commit) {
  const fs::path path = tree_path(repository, commit);
  std::error_code none;
  if (!fs::exists(path, none)) return std::nullopt;
  return parse_cached_tree(read_text_file(path, "Hugging Face cache", std::size_t{1} << 30));
}

void write_tree(const Repository& repository, const std::string& commit, const std::vector<HubFile>& files) {
  const fs::path path = tree_path(repository, commit);
  make_folder(path.parent_path());
  write_file(path, print_cached_tree(files));
}

void write_ref(const Repository& repository, const std::string& commit) {
  if (repository.revision == commit || cached_commit(repository) == commit) return;
  const fs::path path = folder_of(repository) / "refs" / repository.revision;
  make_folder(path.parent_path());
  write_file(path, commit);
}

void link_blob(const Repository& repository, const std::string& commit, const std::string& path,
               const std::string& etag) {
  const fs::path link = folder_of(repository) / "snapshots" / commit / path;
  std::error_code failed;
  if (fs::exists(link, failed)) return;
  make_folder(link.parent_path());
  const fs::path target = (folder_of(repository) / "blobs" / etag).lexically_relative(link.parent_path());
  fs::remove(link, failed);  // a link to contents that were removed
  fs::create_symlink(target, link, failed);
  if (failed && !fs::exists(link))
    throw UserError(
        fmt::format("Hugging Face cache: cannot create the link {}: {}", link.string(), failed.message()));
}

BlobLock::BlobLock(const Repository& repository, const std::string& etag) {
  const fs::path path = cache_folder() / ".locks" / folder_name(repository) / (etag + ".lock");
  make_folder(path.parent_path());
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (descriptor_ < 0)
    throw UserError(
        fmt::format("Hugging Face cache: cannot open {}: {}", path.string(), std::strerror(errno)));
  // Without locks (some network disks) nothing breaks: two processes then write the same bytes.
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (stop_requested()) {
      ::close(descriptor_);
      throw Stopped();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

BlobLock::~BlobLock() { ::close(descriptor_); }

}  // namespace dpo::hub
