#include "plan/architecture.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
#include "config/assets.h"
#include "config/text.h"
#include "hub/cache.h"
#include "model/spec/settings.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Returns the config.json of a model in the Hugging Face cache, or an empty path if it is not there.
fs::path cached_config(const std::string& repository) {
  const auto snapshot = hub::cached_snapshot(hub::RepositoryKind::Model, repository);
  std::error_code none;
  return snapshot && fs::exists(*snapshot / "config.json", none) ? *snapshot / "config.json" : fs::path{};
}

std::string asset_of(const std::string& name) {
  return "architecture/" + replace_all(name, "/", "--") + ".json";
}

Architecture parsed(std::string text, std::string origin) {
  const model::ModelConfig config = model::parse_model_config(text, origin);
  return {config.shape, std::move(origin), std::move(text), config.settings.quantization};
}

}  // namespace

std::vector<std::string> built_in_models() {
  std::vector<std::string> names = config::assets_in("architecture");
  for (std::string& name : names) name = replace_all(name, "--", "/");
  return names;
}

Architecture read_architecture(const fs::path& config_json) {
  return parsed(read_text_file(config_json, "model configuration"), config_json.string());
}

Architecture built_in_architecture(const std::string& name) {
  return parsed(std::string(config::asset(asset_of(name)).value()), "configs/" + asset_of(name));
}

bool is_built_in(const std::string& name) { return config::asset(asset_of(name)).has_value(); }

Architecture find_architecture(const std::string& name_or_path) {
  std::error_code none;
  if (fs::is_directory(name_or_path, none)) return read_architecture(fs::path(name_or_path) / "config.json");
  if (const fs::path cached = cached_config(name_or_path); !cached.empty()) return read_architecture(cached);
  if (is_built_in(name_or_path)) return built_in_architecture(name_or_path);
  if (!name_or_path.empty() && !hub::may_be_on_the_hub(name_or_path))
    throw UserError(
        fmt::format("model.name_or_path: there is no {} {}; expected a model folder or a name ORG/NAME{}",
                    hub::is_file_name(name_or_path) ? "file" : "folder", config::shown(name_or_path),
                    hub::did_you_mean_folder(name_or_path)));
  const std::vector<std::string> known = built_in_models();
  throw UserError(fmt::format(
      "model.name_or_path: '{}' not found: it is not a folder with a config.json, not in the "
      "Hugging Face cache ({}), and not one of the {} models whose sizes are built in; download "
      "it with '{}', or give a folder{}",
      name_or_path, hub::cache_folder().string(), known.size(),
      hub::fetch_command(hub::RepositoryKind::Model, name_or_path), did_you_mean(name_or_path, known)));
}

}  // namespace dpo::plan
