#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "config/text.h"
#include "data/source.h"
#include "data/split_names.h"
#include "hub/cache.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

struct Known {
  std::string_view name;
  Source::Format format;
  const char* repository;
  std::optional<std::string> config::DatasetPaths::*path;
};

constexpr std::array<Known, 3> kKnown = {{
    {"hh", Source::Format::Hh, "Anthropic/hh-rlhf", &config::DatasetPaths::hh},
    {"shp", Source::Format::Shp, "stanfordnlp/SHP", &config::DatasetPaths::shp},
    {"se", Source::Format::Se, "HuggingFaceH4/stack-exchange-preferences", &config::DatasetPaths::se},
}};

// Returns whether a file contains rows, and is not metadata that the `datasets` library writes.
bool is_data_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return is_row_file(file) && name != "dataset_infos.json" && name != "dataset_info.json";
}

bool is_hidden(const fs::path& name) { return name.string().starts_with('.'); }

// Returns the data files of a repository, as row_files finds them in its folder.
std::vector<std::string> data_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(files), [](const fs::path& path) {
    return is_data_file(path) && std::none_of(path.begin(), path.end(), is_hidden);
  });
  std::sort(files.begin(), files.end());
  return files;
}

// Returns all data files below a folder, sorted by path.
Files row_files(const fs::path& folder) {
  Files files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, error),
       end;
       !error && at != end; at.increment(error)) {
    const bool hidden = is_hidden(at->path().filename());
    if (hidden && at->is_directory()) at.disable_recursion_pending();
    if (!hidden && !at->is_directory() && is_data_file(at->path())) files.push_back(at->path());
  }
  if (error) throw UserError(fmt::format("{}: cannot list the folder: {}", folder.string(), error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

Files with_word(const Files& files, const fs::path& base, std::string_view word) {
  Files found;
  std::copy_if(files.begin(), files.end(), std::back_inserter(found),
               [&](const fs::path& file) { return has_word(file.lexically_relative(base).string(), word); });
  return found;
}

// The files of a folder by split. The test split has the files with test in their path, otherwise those with
// validation and the like. Files without such a word are for training.
struct SplitFiles {
  Files train, test;
};

SplitFiles split_by_name(const Files& files, const fs::path& base) {
  SplitFiles split{files, {}};
  for (const std::string_view word : kTestWords) {
    const Files found = with_word(files, base, word);
    if (split.test.empty()) split.test = found;
    std::erase_if(split.train,
                  [&](const fs::path& file) { return std::count(found.begin(), found.end(), file) > 0; });
  }
  return split;
}

Source in_folder(Source source, const fs::path& folder) {
  const Files files = row_files(folder);
  if (files.empty())
    throw UserError(
        fmt::format("datasets: '{}': no files to read in {}; expected .jsonl, .json, .csv or .parquet, or "
                    "these with .gz or .zst",
                    config::shown(source.name), folder.string()));
  const SplitFiles split = split_by_name(files, folder);
  source.by_hash = split.test.empty() || split.train.empty();
  source.files = source.by_hash ? files : source.split == Split::Train ? split.train : split.test;
  return source;
}

// A data set in the Hugging Face cache.
struct CachedData {
  fs::path snapshot;
  std::vector<std::string> files;  // data files, listed by the commit if known, else those on disk
};

std::vector<std::string> files_of(const hub::Repository& repository, const fs::path& snapshot) {
  std::vector<std::string> paths;
  if (const auto tree = hub::cached_tree(repository, snapshot.filename()))
    for (const hub::HubFile& file : *tree) paths.push_back(file.path);
  else
    for (const fs::path& file : row_files(snapshot)) paths.push_back(file.lexically_relative(snapshot));
  return data_files(paths);
}

// Returns the repository's own files in the cache, or else the hub's Parquet copy.
std::optional<CachedData> cached_data(const std::string& name) {
  std::optional<CachedData> found;
  for (const std::string& revision : {name, fmt::format("{}@{}", name, hub::kParquetRevision)})
    if (const auto snapshot = hub::cached_snapshot(hub::RepositoryKind::Dataset, revision))
      if (!found || found->files.empty())
        found = {*snapshot,
                 files_of(*hub::parse_repository(hub::RepositoryKind::Dataset, revision), *snapshot)};
  return found;
}

Source in_cache(Source source, const CachedData& cached, const HubName& name) {
  HubFiles chosen = choose_files(name, cached.files);
  source.by_hash = chosen.train.empty() || chosen.test.empty();
  const bool takes_test = source.by_hash ? chosen.train.empty() : source.split == Split::Test;
  for (const std::string& path : takes_test ? chosen.test : chosen.train)
    source.files.push_back(cached.snapshot / path);
  const auto is_missing = [](const fs::path& file) {
    std::error_code none;
    return !fs::exists(file, none);
  };
  if (source.files.empty() || std::any_of(source.files.begin(), source.files.end(), is_missing))
    throw UserError(fmt::format("datasets: '{}': {} has {} of its files; download it with '{}'",
                                config::shown(source.name), cached.snapshot.string(),
                                source.files.empty() ? "none" : "only some",
                                hub::fetch_command(hub::RepositoryKind::Dataset, source.name)));
  source.notes = std::move(chosen.notes);
  return source;
}

// Finds the files of a known data set in a folder. hh and shp use the files named train or test in any
// subfolder. se uses all files, because its split is drawn from all rows.
Source in_known_folder(Source source, const fs::path& folder, const Known& known) {
  const std::string_view word = source.split == Split::Train ? "train" : "test";
  source.files = row_files(folder);
  if (known.format != Source::Format::Se) source.files = with_word(source.files, folder, word);
  if (source.files.empty())
    throw UserError(
        fmt::format("datasets: '{}': no file of the {} split in {}; expected the files of {}, or {}.jsonl.gz "
                    "itself",
                    source.name, word, folder.string(), known.repository, word));
  return source;
}

// Returns "the folder ./hh" if the working folder has an entry of that name, otherwise an empty string.
std::string namesake_of(std::string_view name) {
  std::error_code none;
  const fs::path path = fs::path(".") / name;
  if (!fs::exists(path, none)) return "";
  return fmt::format("the {} {}", fs::is_directory(path, none) ? "folder" : "file", path.string());
}

Source find_known(Source source, const Known& known, const config::RunConfig& config) {
  source.format = known.format;
  std::error_code none;
  if (const auto& path = config.dataset_paths.*known.path) {
    if (!fs::is_directory(*path, none))
      throw UserError(
          fmt::format("dataset_paths.{}: there is no folder {}", known.name, config::shown(*path)));
    return in_known_folder(std::move(source), *path, known);
  }
  if (const auto cached = cached_data(known.repository))
    return in_known_folder(std::move(source), cached->snapshot, known);
  throw UserError(
      fmt::format("datasets: '{}' is not on this machine: {} is not in the Hugging Face cache ({}); "
                  "download it with '{}', or give its folder: dataset_paths.{}=DIR{}",
                  known.name, known.repository, hub::cache_folder().string(),
                  hub::fetch_command(hub::RepositoryKind::Dataset, known.repository), known.name,
                  namesake_of(known.name).empty()
                      ? ""
                      : fmt::format("; datasets=[./{}] reads {}", known.name, namesake_of(known.name))));
}

// Throws a UserError for an address (https://...), which is neither a file nor a name on the hub.
void refuse_address(const std::string& name) {
  const std::size_t scheme = name.find("://");
  if (scheme == name.npos) return;
  constexpr std::string_view kDataSets = "datasets/";
  const std::size_t at = name.find(kDataSets, scheme);
  throw UserError(fmt::format(
      "datasets: '{}' is an address; expected {}the path of a file or folder", config::shown(name),
      at == name.npos ? "a name on the Hugging Face hub (ORG/NAME), or "
                      : fmt::format("'{}', or ", config::shown(name.substr(at + kDataSets.size())))));
}

// Returns "; did you mean 'FOLDER/NAME'?" if a file has a similar name, otherwise an empty string. The names
// must be similar without their extensions too, because a common extension makes unrelated names look alike.
std::string did_you_mean_file(const fs::path& path, const fs::path& folder) {
  const auto without_extensions = [](const std::string& name) { return name.substr(0, name.find('.')); };
  const std::string name = path.filename().string();
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string other = entry.path().filename().string();
    if (nearest_name(without_extensions(name), {without_extensions(other)})) names.push_back(other);
  }
  const auto near = nearest_name(name, names);
  return near ? fmt::format("; did you mean '{}'?", config::shown((path.parent_path() / *near).string()))
              : "";
}

[[noreturn]] void fail_missing(const fs::path& path) {
  std::error_code none;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::string hint;
  if (path.string().find('*') != std::string::npos) {
    hint = "; wildcards are not expanded: give the folder, or each file";
  } else if (!fs::is_directory(folder, none)) {
    hint = fmt::format("; there is no folder '{}' either", config::shown(folder.string()));
  } else {
    hint = did_you_mean_file(path, folder);
  }
  throw UserError(fmt::format("datasets: there is no file or folder '{}'{}{}", config::shown(path.string()),
                              path.is_relative() ? fmt::format(" in {}", fs::current_path().string()) : "",
                              hint));
}

Source find_files(const std::string& name, Split split, const config::RunConfig& config) {
  Source source;
  source.name = name;
  source.split = split;
  for (const Known& known : kKnown)
    if (name == known.name) return find_known(std::move(source), known, config);
  std::error_code none;
  if (fs::is_directory(name, none)) return in_folder(std::move(source), name);
  if (fs::exists(name, none)) {
    source.files = {name};
    source.by_hash = true;
    return source;
  }
  refuse_address(name);
  const HubName on_hub = HubName::parse(name);
  if (const auto cached = cached_data(on_hub.repository)) return in_cache(std::move(source), *cached, on_hub);
  if (!hub::may_be_on_the_hub(on_hub.repository)) fail_missing(name);
  const std::string fetch =
      name.find('/') != std::string::npos
          ? fmt::format("; if it is a data set on the Hugging Face hub, download it with '{}'",
                        hub::fetch_command(hub::RepositoryKind::Dataset, name))
          : did_you_mean(name, {"hh", "shp", "se"});
  throw UserError(fmt::format(
      "datasets: '{}' is not hh, shp or se, nor a file or folder, nor in the Hugging Face cache ({}){}",
      config::shown(name), hub::cache_folder().string(), fetch));
}

Source find_source(const std::string& name, Split split, const config::RunConfig& config) {
  Source source = find_files(name, split, config);
  source.chat = source.format == Source::Format::Columns && begins_with_chat(source, config);
  return source;
}

void check_names(const config::RunConfig& config) {
  const auto check = [&](const char* key, const auto& map) {
    for (const auto& [name, value] : map)
      if (std::count(config.datasets.begin(), config.datasets.end(), name) == 0)
        throw UserError(fmt::format("{}: '{}' is not one of the data sets ({})", key, config::shown(name),
                                    config::shown(fmt::format("{}", fmt::join(config.datasets, ", ")))));
  };
  check("data.weights", config.data.weights);
  check("data.limits", config.data.limits);
}

}  // namespace

void require_local_files(const config::RunConfig& config) {
  std::error_code none;
  for (const std::string& name : config.datasets)
    if (std::ranges::find(kKnown, name, &Known::name) == std::end(kKnown) && !fs::exists(name, none) &&
        !hub::may_be_on_the_hub(HubName::parse(name).repository))
      fail_missing(name);
}

std::vector<HubDataSet> hub_data_sets(const config::RunConfig& config) {
  std::vector<HubDataSet> data_sets;
  for (const std::string& name : config.datasets) {
    const auto known =
        std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& k) { return k.name == name; });
    if (known != kKnown.end()) {
      const bool all = known->format == Source::Format::Se;
      const auto choose = [all](const std::vector<std::string>& paths) {
        std::vector<std::string> files = data_files(paths);
        if (!all)
          std::erase_if(files, [](const std::string& path) {
            return !has_word(path, "train") && !has_word(path, "test");
          });
        return files;
      };
      if (!(config.dataset_paths.*known->path)) data_sets.push_back({name, known->repository, choose});
    } else if (name.find('/') != std::string::npos) {
      refuse_address(name);
      const HubName on_hub = HubName::parse(name);
      data_sets.push_back({name, on_hub.repository, [on_hub](const std::vector<std::string>& paths) {
                             HubFiles files = choose_files(on_hub, data_files(paths));
                             files.train.insert(files.train.end(), files.test.begin(), files.test.end());
                             return files.train;
                           }});
    }
  }
  return data_sets;
}

std::vector<std::string> namesake_notes(const config::RunConfig& config) {
  std::vector<std::string> notes;
  for (const Known& known : kKnown) {
    const bool is_read = std::ranges::find(config.datasets, known.name) != config.datasets.end();
    const std::string other = namesake_of(known.name);
    if (is_read && !(config.dataset_paths.*known.path) && !other.empty())
      notes.push_back(fmt::format("datasets: '{0}' is {1}, not {2}, which datasets=[./{0}] reads", known.name,
                                  known.repository, other));
  }
  return notes;
}

std::vector<Source> find_sources(const config::RunConfig& config, Split split) {
  check_names(config);
  std::vector<Source> sources;
  std::vector<std::string> problems;
  for (const std::string& name : config.datasets) {
    try {
      sources.push_back(find_source(name, split, config));
    } catch (const UserError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (!problems.empty()) throw UserError(problems);
  const auto has_columns = [](const Source& source) { return source.format == Source::Format::Columns; };
  if (!config.data.columns.empty() && std::none_of(sources.begin(), sources.end(), has_columns))
    throw UserError(fmt::format("data.columns applies to your own files; {} has fixed columns",
                                fmt::join(config.datasets, ", ")));
  return sources;
}

}  // namespace dpo::data
