#include "hub/cache.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/utf8.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

bool is_commit(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

fs::path cache_folder() {
  if (const char* path = environment("HF_HUB_CACHE")) return path;
  if (const char* path = environment("HUGGINGFACE_HUB_CACHE")) return path;
  if (const char* home = environment("HF_HOME")) return fs::path(home) / "hub";
  if (const char* cache = environment("XDG_CACHE_HOME")) return fs::path(cache) / "huggingface" / "hub";
  const char* home = environment("HOME");
  return fs::path(home ? home : ".") / ".cache" / "huggingface" / "hub";
}

bool is_repository_name(const std::string& name) {
  constexpr std::size_t kLongest = 96;
  const auto allowed = [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_' || c == '.' || c == '/';
  };
  return !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), allowed) &&
         std::count(name.begin(), name.end(), '/') <= 1 && name.front() != '/' && name.back() != '/' &&
         name.find("..") == std::string::npos && name.find("--") == std::string::npos;
}

std::optional<fs::path> cached_snapshot(RepositoryKind kind, const std::string& repository) {
  if (!is_repository_name(repository)) return std::nullopt;
  std::string name = repository;
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  const fs::path folder =
      cache_folder() / ((kind == RepositoryKind::Model ? "models--" : "datasets--") + name);
  std::error_code none;
  if (!fs::exists(folder / "refs" / "main", none)) return std::nullopt;
  const std::string commit = read_text_file(folder / "refs" / "main", "Hugging Face cache", 200);
  const fs::path snapshot = folder / "snapshots" / commit;
  if (!is_commit(commit) || !fs::is_directory(snapshot, none)) return std::nullopt;
  return snapshot;
}

bool may_be_on_the_hub(const std::string& name) {
  constexpr std::array kFileEndings = {".json", ".jsonl",       ".csv",  ".parquet", ".txt", ".gz",
                                       ".zst",  ".zip",         ".pt",   ".pth",     ".bin", ".h5",
                                       ".gguf", ".safetensors", ".yaml", ".yml",     ".py",  ".model",
                                       ".tar",  ".arrow",       ".tsv"};
  if (!is_repository_name(name) || name.front() == '.') return false;
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  if (std::any_of(kFileEndings.begin(), kFileEndings.end(), ends)) return false;
  std::error_code none;
  const std::size_t slash = name.find('/');
  return slash == std::string::npos || !fs::is_directory(name.substr(0, slash), none);
}

std::string fetch_command(RepositoryKind kind, const std::string& repository, const std::string& files) {
  return fmt::format("hf download {}{}{}{}", kind == RepositoryKind::Dataset ? "--repo-type dataset " : "",
                     repository, files.empty() ? "" : " ", files);
}

}  // namespace dpo::hub
