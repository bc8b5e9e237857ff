#include "data/split_names.h"

#include <algorithm>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/utf8.h"
#include "config/text.h"

namespace dpo::data {
namespace {

constexpr const char* kAll = "all";
constexpr const char* kPlain = "default";  // the part whose splits are just called train and test
constexpr std::string_view kTrain = "train";

std::vector<std::string> pieces_of(const std::string& text, const char* separators) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

// Returns the split that a file or folder is named after: "train", a word for a test split, or "".
std::string_view split_of_name(std::string_view name) {
  for (const std::string_view word : kTestWords)
    if (has_word(name, word)) return word;
  return has_word(name, kTrain) || has_word(name, "training") ? kTrain : "";
}

// Removes the word for the split and numbers from a name: "train_prefs-1" becomes "prefs".
std::string without_split(const std::string& name) {
  std::vector<std::string> rest;
  for (const std::string& piece : pieces_of(name, "-_. "))
    if (split_of_name(piece).empty() && piece.find_first_not_of("0123456789") != std::string::npos)
      rest.push_back(piece);
  return fmt::format("{}", fmt::join(rest, "_"));
}

struct HubFile {
  std::string path;
  std::string_view split{};  // from split_of_name
  std::string part{};
  bool is_cut = false;  // the hub's Parquet copy has only the beginning of this split
};

// Reads the split and part from a path. The innermost name with a word for a split determines both. A folder
// of that name is the split.
HubFile read_path(const std::string& path) {
  static const std::regex ending(R"((-\d{5}-of-\d{5}(-[0-9a-f]{8,})?)?(\.[a-z]+){1,2}$)");
  HubFile file{path};
  std::vector<std::string> names = pieces_of(std::regex_replace(path, ending, ""), "/");
  while (!names.empty() && (file.split = split_of_name(names.back())).empty()) names.pop_back();
  if (names.empty()) {
    names = pieces_of(path, "/");
    names.pop_back();
  } else {
    file.is_cut = names.back().starts_with("partial-");
    names.back() = file.is_cut ? "" : without_split(names.back());
  }
  std::erase(names, "");
  if (!names.empty() && names.front() == "data") names.erase(names.begin());
  file.part = names.empty() ? kPlain : fmt::format("{}", fmt::join(names, "/"));
  return file;
}

std::string list_parts(const HubName& name, const std::set<std::string>& parts) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> names;
  for (const std::string& part : parts)
    if (names.size() < kMost) names.push_back(name.repository + ":" + part);
  if (parts.size() > kMost) names.push_back("...");
  return config::shown(fmt::format("{}", fmt::join(names, ", ")));
}

std::set<std::string> parts_of(const std::vector<HubFile>& files) {
  std::set<std::string> parts;
  for (const HubFile& file : files) parts.insert(file.part);
  return parts;
}

void keep_part(std::vector<HubFile>& files, const HubName& name) {
  const std::set<std::string> parts = parts_of(files);
  std::erase_if(files, [&](const HubFile& file) {
    return file.part != name.part && !file.part.starts_with(name.part + "/");
  });
  if (files.empty())
    throw UserError(fmt::format("datasets: '{}:{}': the data set has no such part; it has {}",
                                config::shown(name.repository), config::shown(name.part),
                                list_parts(name, parts)));
}

// Keeps the only part to train on, or the plain one with a note. Throws a UserError if the user has to
// choose.
void keep_only_part(std::vector<HubFile>& files, const HubName& name, std::vector<std::string>& notes) {
  std::vector<HubFile> trained = files;
  std::erase_if(trained, [](const HubFile& file) { return file.split != kTrain; });
  const std::set<std::string> parts = parts_of(trained.empty() ? files : trained);
  if (parts.size() > 1 && !parts.contains(kPlain))
    throw UserError(fmt::format(
        "datasets: '{0}' has several configurations or training splits: choose one of {1}, or several, as in "
        "datasets=[A, B], or {0}:{2}",
        config::shown(name.repository), list_parts(name, parts), kAll));
  if (parts.size() > 1)
    notes.push_back(
        fmt::format("only its splits train and test are used; it has the parts {}", list_parts(name, parts)));
  const std::string part = parts.size() > 1 ? kPlain : *parts.begin();
  const bool is_tested = std::ranges::any_of(
      files, [&](const HubFile& file) { return file.part == part && file.split != kTrain; });
  std::erase_if(
      files, [&](const HubFile& file) { return file.part != part && (is_tested || file.split == kTrain); });
}

std::vector<std::string> paths_of(const std::vector<HubFile>& files, std::string_view split) {
  std::vector<std::string> paths;
  for (const HubFile& file : files)
    if (file.split == split) paths.push_back(file.path);
  return paths;
}

}  // namespace

bool has_word(std::string_view name, std::string_view word) {
  for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const bool begins = at == 0 || !is_ascii_letter(name[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == name.size() || !is_ascii_letter(name[end]))) return true;
  }
  return false;
}

HubName HubName::parse(const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos) return {name};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

HubFiles choose_files(const HubName& name, const std::vector<std::string>& paths) {
  HubFiles chosen;
  std::vector<HubFile> files;
  for (const std::string& path : paths) files.push_back(read_path(path));
  if (files.empty()) return chosen;
  if (!name.part.empty() && name.part != kAll) keep_part(files, name);
  std::vector<std::string> unnamed = paths_of(files, "");
  const bool has_train = !paths_of(files, kTrain).empty();
  if (has_train && !unnamed.empty())
    chosen.notes.push_back(fmt::format("not used, since other files are called train: {}",
                                       config::shown(fmt::format("{}", fmt::join(unnamed, ", ")))));
  std::erase_if(files, [](const HubFile& file) { return file.split.empty(); });
  if (name.part.empty() && (has_train || unnamed.empty())) keep_only_part(files, name, chosen.notes);
  chosen.train = has_train ? paths_of(files, kTrain) : unnamed;
  for (const std::string_view word : kTestWords)
    if (chosen.test.empty()) chosen.test = paths_of(files, word);
  if (std::ranges::any_of(files, &HubFile::is_cut))
    chosen.notes.push_back(
        "the hub's Parquet copy has only the first 5 GB of a split; download the data set itself and give "
        "its folder to use all of it");
  return chosen;
}

}  // namespace dpo::data
