#include "hub/fetch.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "hub/download.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

// Returns a function that reads an index of weights in a snapshot, or "" if it is not there.
std::function<std::string(const std::string&)> reader_of(const fs::path& snapshot) {
  return [snapshot](const std::string& name) {
    std::error_code none;
    constexpr std::size_t kLargest = std::size_t{1} << 30;
    return fs::exists(snapshot / name, none)
               ? read_text_file(snapshot / name, "the model's weights", kLargest)
               : "";
  };
}

// Returns the paths of all files in a folder, relative to it.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code none;
  for (fs::recursive_directory_iterator at(folder, none), end; !none && at != end; at.increment(none))
    if (!at->is_directory()) files.push_back(at->path().lexically_relative(folder).string());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_in(const fs::path& snapshot, const std::string& name) {
  std::error_code none;
  return fs::exists(snapshot / name, none);
}

bool has_tokenizer(const fs::path& snapshot) {
  return is_in(snapshot, "tokenizer.json") || is_in(snapshot, "tokenizer.model") ||
         (is_in(snapshot, "vocab.json") && is_in(snapshot, "merges.txt"));
}

bool has_weights(const fs::path& snapshot) {
  const auto has = [&](const std::string& name) { return is_in(snapshot, name); };
  const std::vector<std::string> weights = weight_files(has, reader_of(snapshot));
  return (has("config.json") || has("adapter_config.json")) && !weights.empty() &&
         std::all_of(weights.begin(), weights.end(), has);
}

// Returns true if a snapshot can be used, although files of the repository may be missing.
bool suffices(const fs::path& snapshot, const Wanted& wanted) {
  switch (wanted.need) {
    case Need::config: return is_in(snapshot, "config.json");
    case Need::tokenizer: return has_tokenizer(snapshot);
    case Need::weights: return has_weights(snapshot);
    case Need::data: break;
  }
  return !wanted.choose(files_in(snapshot)).empty();
}

Repository parquet_copy_of(const Repository& repository) {
  return {repository.kind, repository.id, kParquetRevision};
}

bool may_have_parquet_copy(const Repository& repository, const Wanted& wanted) {
  return wanted.need == Need::data && repository.revision == "main";
}

bool can_download() { return http::is_available() && !is_offline(); }

fs::path snapshot_of(const Repository& repository, const std::string& commit) {
  return folder_of(repository) / "snapshots" / commit;
}

// Cached state of a repository.
struct Cached {
  fs::path snapshot;
  bool list_known = false;             // the list of the commit's files is cached
  std::vector<std::string> missing{};  // needed files that are not cached
};

// Returns nullopt if no commit is cached. For a data set without data files, looks at its Parquet copy.
std::optional<Cached> look_into_cache(const Repository& repository, const Wanted& wanted) {
  const auto commit = cached_commit(repository);
  if (!commit) return std::nullopt;
  Cached cached{snapshot_of(repository, *commit)};
  const auto tree = cached_tree(repository, *commit);
  if (!tree) return cached;
  cached.list_known = true;
  const std::vector<HubFile> needed = needed_files(*tree, wanted, reader_of(cached.snapshot));
  if (needed.empty() && may_have_parquet_copy(repository, wanted))
    return look_into_cache(parquet_copy_of(repository), wanted);
  for (const HubFile& file : needed)
    if (!is_in(cached.snapshot, file.path)) cached.missing.push_back(file.path);
  return cached;
}

bool is_complete(const Cached& cached, const Wanted& wanted) {
  if (wanted.need == Need::config) return suffices(cached.snapshot, wanted);
  // Python may have downloaded weights in the other format.
  if (wanted.need == Need::weights) return has_weights(cached.snapshot);
  if (cached.list_known) return cached.missing.empty();
  // Python's `tokenizers` caches only tokenizer.json.
  return wanted.need == Need::tokenizer && has_tokenizer(cached.snapshot) &&
         is_in(cached.snapshot, "tokenizer_config.json");
}

// Returns true if the cached files can be used without the hub. A data set whose list of files is cached must
// be complete.
bool is_usable(const std::optional<Cached>& cached, const Wanted& wanted) {
  if (!cached) return false;
  return cached->list_known && wanted.need == Need::data ? cached->missing.empty()
                                                         : suffices(cached->snapshot, wanted);
}

std::string use_of_cache(const Repository& repository, const Cached& cached) {
  return fmt::format("{} is used as it is in the cache, {}", describe(repository),
                     cached.missing.empty() ? "which may have only some of its files"
                                            : fmt::format("without {}", fmt::join(cached.missing, ", ")));
}

[[noreturn]] void report_no_download(const Repository& repository) {
  const bool partly = cached_snapshot(repository.kind, to_string(repository)).has_value();
  const std::string where = fmt::format("{} is not {}in the Hugging Face cache ({})", describe(repository),
                                        partly ? "completely " : "", cache_folder().string());
  if (!http::is_available())
    throw UserError(
        fmt::format("{}, and this dpo was built without libcurl: install its development files "
                    "(libcurl4-openssl-dev) and build again, or download it with '{}'",
                    where, fetch_command(repository.kind, to_string(repository))));
  throw UserError(
      fmt::format("{}, and HF_HUB_OFFLINE forbids downloads: run '{}' where the hub can be reached", where,
                  fetch_command(repository.kind, to_string(repository))));
}

void check_weights(const Repository& repository, const std::vector<HubFile>& files) {
  const auto has = [&](const std::string& name) {
    return std::any_of(files.begin(), files.end(), [&](const HubFile& file) { return file.path == name; });
  };
  if (!weight_files(has, [](const std::string&) { return ""; }).empty()) return;
  std::string others;
  for (const char* ending : {".gguf", ".msgpack", ".h5", ".onnx", ".safetensors", ".bin", ".pt"})
    for (const HubFile& file : files)
      if (others.empty() && file.path.ends_with(ending)) others = "; it has " + file.path;
  throw UserError(
      fmt::format("{} has no weights that dpo reads: expected model.safetensors or "
                  "pytorch_model.bin, several files with an index, or an adapter{}",
                  describe(repository), others));
}

std::vector<HubFile> list_files(const Repository& repository, const std::string& commit,
                                const Listener& listener) {
  if (auto tree = cached_tree(repository, commit)) return *tree;
  std::vector<HubFile> tree = Client({repository.kind, repository.id, commit}, listener).list_files(commit);
  write_tree(repository, commit, tree);
  return tree;
}

enum class Follow { branch, cache };  // the newest commit; the cached one if there is one

fs::path download(const Repository& repository, const Wanted& wanted, const Listener& listener,
                  Follow follow);

fs::path download_parquet_copy(const Repository& repository, const Wanted& wanted, const Listener& listener,
                               Follow follow) {
  try {
    return download(parquet_copy_of(repository), wanted, listener, follow);
  } catch (const HubUnavailable&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(
        fmt::format("{} has no data files that dpo reads (a script is never run), and its Parquet "
                    "copy is not available: {}",
                    describe(repository), error.what()));
  }
}

fs::path download(const Repository& repository, const Wanted& wanted, const Listener& listener,
                  Follow follow) {
  Client client(repository, listener);
  const auto cached = follow == Follow::cache ? cached_commit(repository) : std::nullopt;
  const std::string commit = cached ? *cached : client.find_commit();
  const auto set_branch = [&] {
    if (follow == Follow::branch || !cached_branch(repository)) write_ref(repository, commit);
  };
  const fs::path snapshot = snapshot_of(repository, commit);
  const std::vector<HubFile> tree = list_files(repository, commit, listener);
  const std::vector<HubFile> needed = needed_files(tree, wanted, reader_of(snapshot));
  if (needed.empty() && may_have_parquet_copy(repository, wanted)) {
    fs::path copy = download_parquet_copy(repository, wanted, listener, follow);
    make_folder(snapshot);  // Python's tools report a branch without a snapshot as corrupt
    set_branch();
    return copy;
  }
  if (wanted.need == Need::data && needed.empty())
    throw UserError(
        fmt::format("{} has no data files that dpo reads: expected .jsonl, .json, .csv or "
                    ".parquet, or these with .gz or .zst",
                    describe(repository)));
  if (wanted.need == Need::weights) check_weights(repository, tree);
  download_files(client, commit, needed, listener);
  // The weight files are known only once their index is there.
  if (wanted.need == Need::weights)
    download_files(client, commit, needed_files(tree, wanted, reader_of(snapshot)), listener);
  set_branch();
  return snapshot;
}

// Returns the message for a name that may mean a folder, when the hub could not be asked about it.
std::string not_here(RepositoryKind kind, const std::string& name, const std::string& problem) {
  if (kind == RepositoryKind::Dataset) return problem + "; or give a file or folder instead of a name";
  const std::string near = did_you_mean_folder(name);
  return fmt::format("there is no folder '{}' here{} On the hub: {}", name, near.empty() ? "." : near,
                     problem);
}

// Returns the repository that a name means, or nullopt if it is a file or folder of this machine.
std::optional<Repository> on_the_hub(RepositoryKind kind, const std::string& name) {
  std::error_code none;
  const auto repository = parse_repository(kind, name);
  return fs::exists(name, none) || !may_be_on_the_hub(name) ? std::nullopt : repository;
}

void add_commits(Commits& commits, const Repository& repository, const Wanted& wanted,
                 const Listener& listener) {
  const std::string name = fetch_name(repository);
  if (!commits.contains(name)) {
    auto commit = cached_commit(repository);
    if (!commit && can_download()) commit = Client(repository, listener).find_commit();
    if (!commit) return;
    commits[name] = *commit;
  }
  if (!may_have_parquet_copy(repository, wanted)) return;
  std::optional<std::vector<HubFile>> tree = cached_tree(repository, commits[name]);
  try {
    if (!tree && can_download()) tree = list_files(repository, commits[name], listener);
  } catch (const HubUnavailable&) {  // fetch_missing uses the cache or reports it
  }
  if (tree && needed_files(*tree, wanted, [](const std::string&) { return ""; }).empty())
    add_commits(commits, parquet_copy_of(repository), wanted, listener);
}

}  // namespace

bool is_cached(const Repository& repository, const Wanted& wanted) {
  const auto cached = look_into_cache(repository, wanted);
  return cached && is_complete(*cached, wanted);
}

fs::path fetch(const Repository& repository, const Wanted& wanted, const Listener& listener) {
  if (can_download()) return download(repository, wanted, listener, Follow::branch);
  const auto cached = look_into_cache(repository, wanted);
  if (!is_usable(cached, wanted)) report_no_download(repository);
  return cached->snapshot;
}

void fetch_missing(RepositoryKind kind, const std::string& name, const Wanted& wanted,
                   const Listener& listener) {
  const auto repository = on_the_hub(kind, name);
  if (!repository) return;
  const auto cached = look_into_cache(*repository, wanted);
  if (cached && is_complete(*cached, wanted)) return;
  const auto say = [&](const std::string& note) {
    if (listener.say) listener.say(note);
  };
  if (!can_download()) {
    if (is_usable(cached, wanted)) return say("offline: " + use_of_cache(*repository, *cached));
    if (const auto commit = cached_commit(*repository)) {
      const bool is_newest = cached_branch(*repository) == commit;
      report_no_download(is_newest ? *repository : Repository{kind, repository->id, *commit});
    }
    return;
  }
  try {
    download(*repository, wanted, listener, Follow::cache);
  } catch (const HubUnavailable& error) {
    if (!is_usable(cached, wanted)) throw HubUnavailable(not_here(kind, name, error.what()));
    say(fmt::format("{}; {}", error.what(), use_of_cache(*repository, *cached)));
  }
}

Commits find_commits(std::span<const Target> targets, Commits known, const Listener& listener) {
  for (const Target& target : targets) try {
      if (const auto repository = on_the_hub(target.kind, target.name))
        add_commits(known, *repository, target.wanted, listener);
    } catch (const HubUnavailable& error) {
      throw HubUnavailable(not_here(target.kind, target.name, error.what()));
    }
  return known;
}

}  // namespace dpo::hub
