#include "hub/repository.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "http/http.h"
#include "hub/settings.h"

namespace dpo::hub {
namespace {

bool is_allowed(char c) {
  return is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_' || c == '.' || c == '/';
}

// Accepts the revisions that git accepts. The text becomes a path in the cache.
bool is_revision(const std::string& text) {
  constexpr std::size_t kLongest = 200;
  const auto allowed = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7F && std::string_view("~^:?*[\\").find(c) == std::string_view::npos;
  };
  return !text.empty() && text.size() <= kLongest && std::all_of(text.begin(), text.end(), allowed) &&
         text.front() != '/' && text.back() != '/' && text.find("..") == std::string::npos &&
         text.find("//") == std::string::npos;
}

bool has_model(const std::filesystem::path& folder) {
  std::error_code none;
  constexpr std::array kFiles = {"config.json", "adapter_config.json", "tokenizer.json"};
  return std::ranges::any_of(kFiles,
                             [&](const char* file) { return std::filesystem::exists(folder / file, none); });
}

}  // namespace

bool is_repository_name(const std::string& name) {
  constexpr std::size_t kLongest = 96;
  return !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), is_allowed) &&
         std::count(name.begin(), name.end(), '/') <= 1 && name.front() != '/' && name.back() != '/' &&
         name.find("..") == std::string::npos && name.find("--") == std::string::npos;
}

std::optional<Repository> parse_repository(RepositoryKind kind, const std::string& name) {
  const std::size_t at = name.find('@');
  Repository repository{kind, name.substr(0, at)};
  if (at != std::string::npos) repository.revision = name.substr(at + 1);
  if (!is_repository_name(repository.id) || !is_revision(repository.revision)) return std::nullopt;
  return repository;
}

std::string to_string(const Repository& repository) {
  return repository.revision == "main" ? repository.id : repository.id + "@" + repository.revision;
}

std::string fetch_name(const Repository& repository) {
  return (repository.kind == RepositoryKind::Dataset ? "datasets/" : "") + to_string(repository);
}

bool is_commit(const std::string& text) {
  constexpr std::size_t kDigits = 40;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_file_name(const std::string& name) {
  constexpr std::array kEndings = {".json", ".jsonl",       ".csv",  ".parquet", ".txt", ".gz",
                                   ".zst",  ".zip",         ".pt",   ".pth",     ".bin", ".h5",
                                   ".gguf", ".safetensors", ".yaml", ".yml",     ".py",  ".model",
                                   ".tar",  ".arrow",       ".tsv",  ".jinja"};
  return std::ranges::any_of(kEndings, [&](const char* ending) { return name.ends_with(ending); });
}

std::string did_you_mean_folder(const std::string& name) {
  const std::filesystem::path path(name.substr(0, name.find_last_not_of('/') + 1));
  std::error_code none;
  const bool has_folder = path.has_parent_path() && std::filesystem::is_directory(path.parent_path(), none);
  const std::filesystem::path parent = has_folder ? path.parent_path() : "";
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(has_folder ? parent : ".", none))
    if (has_model(entry.path())) models.push_back(entry.path().filename().string());
  auto near = nearest_name(path.filename().string(), models);
  // ORG/NAME may be a correct name on the hub, so suggest only a folder called exactly NAME.
  if (path.has_parent_path() && !has_folder && near != path.filename().string()) near.reset();
  return near ? fmt::format("; did you mean '{}'?", (parent / *near).string()) : "";
}

bool may_be_on_the_hub(const std::string& name) {
  const auto repository = parse_repository(RepositoryKind::Model, name);
  if (!repository || name.front() == '.') return false;
  const std::string& id = repository->id;
  if (is_file_name(id)) return false;
  std::error_code none;
  const std::size_t slash = id.find('/');
  return slash == std::string::npos || !std::filesystem::is_directory(id.substr(0, slash), none);
}

std::string fetch_command(RepositoryKind kind, const std::string& name) {
  const bool data = kind == RepositoryKind::Dataset;
  if (!http::is_available()) return fmt::format("hf download {}{}", data ? "--repo-type dataset " : "", name);
  return fmt::format("{}dpo fetch {}{}", is_offline() ? "HF_HUB_OFFLINE=0 " : "", data ? "datasets/" : "",
                     name);
}

}  // namespace dpo::hub
