#include "hub/fetch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "hub/cache.h"
#include "hub/download.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

// Reads an index of weights in a snapshot; "" if it is not there.
std::function<std::string(const std::string&)> reader_of(const fs::path& snapshot) {
  return [snapshot](const std::string& name) {
    std::error_code none;
    constexpr std::size_t kLargest = std::size_t{1} << 30;
    return fs::exists(snapshot / name, none)
               ? read_text_file(snapshot / name, "the model's weights", kLargest)
               : "";
  };
}

bool has_data_file(const fs::path& snapshot, const IsDataFile& is_data) {
  std::error_code none;
  for (fs::recursive_directory_iterator at(snapshot, none), end; !none && at != end; at.increment(none))
    if (!at->is_directory() && is_data(at->path().lexically_relative(snapshot).string())) return true;
  return false;
}

// For a snapshot whose list of files is not known: the files that are always there.
bool looks_complete(const fs::path& snapshot, const Wanted& wanted) {
  const auto has = [&](const std::string& name) {
    std::error_code none;
    return fs::exists(snapshot / name, none);
  };
  if (wanted.need == Need::data) return has_data_file(snapshot, wanted.is_data);
  if (wanted.need == Need::tokenizer)
    return has("tokenizer.json") || has("tokenizer.model") || (has("vocab.json") && has("merges.txt"));
  if (!has("config.json")) return false;
  if (wanted.need == Need::config) return true;
  const std::vector<std::string> weights = weight_files(has, reader_of(snapshot));
  return !weights.empty() && std::all_of(weights.begin(), weights.end(), has);
}

Repository parquet_copy_of(const Repository& repository) {
  return {repository.kind, repository.id, kParquetRevision};
}

bool has_parquet_copy(const Repository& repository, const Wanted& wanted) {
  return wanted.need == Need::data && repository.revision == "main";
}

// The only files in the copy that are needed.
Wanted parquet_files() {
  return {Need::data, [](const std::string& path) { return path.ends_with(".parquet"); }};
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

fs::path fetch_parquet_copy(const Repository& repository, const Listener& listener) {
  try {
    return fetch(parquet_copy_of(repository), parquet_files(), listener);
  } catch (const UserError& error) {
    throw UserError(
        fmt::format("{} has no data files that dpo reads (a script is never run), and its Parquet "
                    "copy is not available: {}",
                    describe(repository), error.what()));
  }
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
                  "pytorch_model.bin, or several files with an index{}",
                  describe(repository), others));
}

}  // namespace

bool is_cached(const Repository& repository, const Wanted& wanted) {
  const auto commit = cached_commit(repository);
  if (!commit) return false;
  const fs::path snapshot = folder_of(repository) / "snapshots" / *commit;
  const auto tree = cached_tree(repository, *commit);
  if (!tree) return looks_complete(snapshot, wanted);
  const std::vector<HubFile> needed = needed_files(*tree, wanted, reader_of(snapshot));
  if (needed.empty() && has_parquet_copy(repository, wanted))
    return is_cached(parquet_copy_of(repository), parquet_files());
  const bool has_all = std::all_of(needed.begin(), needed.end(), [&](const HubFile& file) {
    std::error_code none;
    return fs::exists(snapshot / file.path, none);
  });
  // Python may have downloaded the other kind of weights.
  return has_all || (wanted.need == Need::weights && looks_complete(snapshot, wanted));
}

fs::path fetch(const Repository& repository, const Wanted& wanted, const Listener& listener) {
  if (is_offline() || !http::is_available()) {
    if (!is_cached(repository, wanted)) report_no_download(repository);
    const auto snapshot = cached_snapshot(repository.kind, to_string(repository));
    return snapshot ? *snapshot : fetch(parquet_copy_of(repository), parquet_files(), listener);
  }
  Client client(repository, listener);
  const std::string commit = client.find_commit();
  const fs::path snapshot = folder_of(repository) / "snapshots" / commit;
  auto tree = cached_tree(repository, commit);
  if (!tree) {
    tree = client.list_files(commit);
    write_tree(repository, commit, *tree);
  }
  std::vector<HubFile> needed = needed_files(*tree, wanted, reader_of(snapshot));
  if (needed.empty() && has_parquet_copy(repository, wanted)) {
    write_ref(repository, commit);
    return fetch_parquet_copy(repository, listener);
  }
  if (wanted.need == Need::data && needed.empty())
    throw UserError(
        fmt::format("{} has no data files that dpo reads: expected .jsonl, .json, .csv or "
                    ".parquet, or these with .gz or .zst",
                    describe(repository)));
  if (wanted.need == Need::weights) check_weights(repository, *tree);
  download_files(client, commit, needed, listener);
  // The files of an index are known once it is there.
  if (wanted.need == Need::weights)
    download_files(client, commit, needed_files(*tree, wanted, reader_of(snapshot)), listener);
  write_ref(repository, commit);
  return snapshot;
}

void fetch_missing(RepositoryKind kind, const std::string& name, const Wanted& wanted,
                   const Listener& listener) {
  std::error_code none;
  const auto repository = parse_repository(kind, name);
  if (!repository || fs::exists(name, none) || !may_be_on_the_hub(name) || is_cached(*repository, wanted))
    return;
  const bool can = http::is_available() && !is_offline();
  if (can || cached_snapshot(kind, name)) fetch(*repository, wanted, listener);
}

}  // namespace dpo::hub
