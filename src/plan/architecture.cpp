#include "plan/architecture.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
#include "config/assets.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

fs::path hugging_face_cache() {
  if (const char* path = environment("HF_HUB_CACHE")) return path;
  if (const char* path = environment("HUGGINGFACE_HUB_CACHE")) return path;
  if (const char* home = environment("HF_HOME")) return fs::path(home) / "hub";
  if (const char* cache = environment("XDG_CACHE_HOME")) return fs::path(cache) / "huggingface" / "hub";
  const char* home = environment("HOME");
  return fs::path(home ? home : ".") / ".cache" / "huggingface" / "hub";
}

// snapshots/COMMIT/config.json of the commit that refs/main names.
fs::path cached_config(const std::string& repository) {
  const fs::path folder = hugging_face_cache() / ("models--" + replace_all(repository, "/", "--"));
  std::error_code none;
  if (!fs::exists(folder / "refs" / "main", none)) return {};
  const std::string commit = read_text_file(folder / "refs" / "main", "Hugging Face cache", 200);
  if (commit.find_first_not_of("0123456789abcdef") != std::string::npos) return {};
  const fs::path config = folder / "snapshots" / commit / "config.json";
  return fs::exists(config, none) ? config : fs::path{};
}

Architecture from_file(const fs::path& path) {
  return {model::parse_shape(read_text_file(path, "model configuration"), path.string()), path.string()};
}

}  // namespace

Architecture find_architecture(const std::string& name_or_path) {
  std::error_code none;
  if (fs::is_directory(name_or_path, none)) return from_file(fs::path(name_or_path) / "config.json");
  if (const fs::path cached = cached_config(name_or_path); !cached.empty()) return from_file(cached);
  const std::string file = replace_all(name_or_path, "/", "--");
  if (const auto shipped = config::asset("architecture/" + file + ".json")) {
    const std::string origin = "configs/architecture/" + file + ".json";
    return {model::parse_shape(*shipped, origin), origin};
  }
  std::vector<std::string> known = config::assets_in("architecture");
  for (std::string& name : known) name = replace_all(name, "--", "/");
  throw UserError(fmt::format(
      "model.name_or_path: the sizes of '{}' are not known here: it is not a folder with a config.json, not "
      "in the "
      "Hugging Face cache ({}), and not one of the {} models whose sizes are shipped; fetch it with "
      "'hf download {} config.json', or give a folder{}",
      name_or_path, hugging_face_cache().string(), known.size(), name_or_path,
      did_you_mean(name_or_path, known)));
}

}  // namespace dpo::plan
