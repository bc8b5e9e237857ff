#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/open_file.h"
#include "base/output_files.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

fs::path tree_path(const Repository& repository, const std::string& commit) {
  return folder_of(repository) / "trees" / (commit + ".json");
}

void try_to_write(const fs::path& path, const std::string& text) try {
  make_folder(path.parent_path());
  write_file(path, text);
} catch (const UserError&) {
}

Commits& used_commits() {
  static Commits commits;
  return commits;
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

void use_commits(Commits commits) {
  std::erase_if(commits, [](const auto& item) { return !is_commit(item.second); });
  used_commits() = std::move(commits);
}

std::optional<std::string> cached_branch(const Repository& repository) {
  const fs::path ref = folder_of(repository) / "refs" / repository.revision;
  std::error_code none;
  if (!fs::is_regular_file(ref, none)) return std::nullopt;
  const std::string commit = read_text_file(ref, "Hugging Face cache", 200);
  return is_commit(commit) ? std::optional(commit) : std::nullopt;
}

std::optional<std::string> cached_commit(const Repository& repository) {
  if (is_commit(repository.revision)) return repository.revision;
  const auto used = used_commits().find(fetch_name(repository));
  return used != used_commits().end() ? std::optional(used->second) : cached_branch(repository);
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
  try_to_write(tree_path(repository, commit), print_cached_tree(files));
  // Python's tools report a repository without this folder as corrupt.
  std::error_code none;
  fs::create_directories(folder_of(repository) / "snapshots", none);
}

void write_ref(const Repository& repository, const std::string& commit) {
  if (repository.revision == commit || cached_branch(repository) == commit) return;
  try_to_write(folder_of(repository) / "refs" / repository.revision, commit);
}

void link_blob(const Repository& repository, const std::string& commit, const std::string& path,
               const std::string& etag) {
  const fs::path link = folder_of(repository) / "snapshots" / commit / path;
  std::error_code failed;
  if (fs::exists(link, failed)) return;
  make_folder(link.parent_path());
  const fs::path target = (folder_of(repository) / "blobs" / etag).lexically_relative(link.parent_path());
  fs::remove(link, failed);  // may be a link to contents that were removed
  fs::create_symlink(target, link, failed);
  // The file system has no links. The Python client moves the file in this case too.
  if (failed == std::errc::operation_not_permitted || failed == std::errc::operation_not_supported ||
      failed == std::errc::function_not_supported)
    fs::rename(folder_of(repository) / "blobs" / etag, link, failed);
  if (failed && !fs::exists(link))
    throw UserError(
        fmt::format("Hugging Face cache: cannot create the link {}: {}", link.string(), failed.message()));
}

BlobLock::BlobLock(const Repository& repository, const std::string& etag, const std::function<void()>& wait) {
  const fs::path path = cache_folder() / ".locks" / folder_name(repository) / (etag + ".lock");
  make_folder(path.parent_path());
  descriptor_ = open_to_write(path, O_RDWR | O_CREAT, Owner::anyone);
  if (descriptor_ < 0)
    throw UserError(
        fmt::format("Hugging Face cache: cannot open {}: {}", path.string(), std::strerror(errno)));
  try {
    while (lock_file(descriptor_, LOCK_EX | LOCK_NB) == EWOULDBLOCK) wait();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

BlobLock::~BlobLock() { ::close(descriptor_); }

}  // namespace dpo::hub
