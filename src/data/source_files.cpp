#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "config/text.h"
#include "data/source.h"
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

// All data files below a folder, sorted by path, as the `datasets` library reads them.
Files row_files(const fs::path& folder) {
  Files files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, error),
       end;
       !error && at != end; at.increment(error)) {
    const bool hidden = at->path().filename().string().starts_with('.');
    if (hidden && at->is_directory()) at.disable_recursion_pending();
    if (!hidden && !at->is_directory() && is_row_file(at->path())) files.push_back(at->path());
  }
  if (error) throw UserError(fmt::format("{}: cannot list the folder: {}", folder.string(), error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

// Whether `word` is a word of the path of a file below `base`.
bool has_word(const fs::path& file, const fs::path& base, std::string_view word) {
  const std::string name = file.lexically_relative(base).string();
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const bool begins = at == 0 || !is_ascii_letter(name[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == name.size() || !is_ascii_letter(name[end]))) return true;
  }
  return false;
}

Files with_word(const Files& files, const fs::path& base, std::string_view word) {
  Files found;
  std::copy_if(files.begin(), files.end(), std::back_inserter(found),
               [&](const fs::path& file) { return has_word(file, base, word); });
  return found;
}

// The files of a folder by split: those with test in their path, else validation and the like, are the test
// split; those with no such word are for training.
struct SplitFiles {
  Files train, test;
};

SplitFiles split_by_name(const Files& files, const fs::path& base) {
  constexpr std::array<std::string_view, 5> kTestWords = {"test", "validation", "valid", "dev", "eval"};
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

// hh and shp: the files called train or test, in any sub-folder. se: all files, from which the split is
// drawn.
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

Source find_known(Source source, const Known& known, const config::RunConfig& config) {
  source.format = known.format;
  std::error_code none;
  if (const auto& path = config.dataset_paths.*known.path) {
    if (!fs::is_directory(*path, none))
      throw UserError(
          fmt::format("dataset_paths.{}: there is no folder {}", known.name, config::shown(*path)));
    return in_known_folder(std::move(source), *path, known);
  }
  if (const auto snapshot = hub::cached_snapshot(hub::RepositoryKind::Dataset, known.repository))
    return in_known_folder(std::move(source), *snapshot, known);
  throw UserError(
      fmt::format("datasets: '{}' is not on this machine: {} is not in the Hugging Face cache ({}); "
                  "download it with '{}', or give its folder: dataset_paths.{}=DIR",
                  known.name, known.repository, hub::cache_folder().string(),
                  hub::fetch_command(hub::RepositoryKind::Dataset, known.repository), known.name));
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
  if (const auto snapshot = hub::cached_snapshot(hub::RepositoryKind::Dataset, name))
    return in_folder(std::move(source), *snapshot);
  if (!hub::may_be_on_the_hub(name))
    throw UserError(fmt::format("datasets: there is no file or folder '{}'", config::shown(name)));
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
