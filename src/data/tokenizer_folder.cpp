#include "data/tokenizer_folder.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/text.h"
#include "hub/cache.h"

namespace dpo::data {
namespace {

std::string name_of(const config::RunConfig& config) {
  return config.model.tokenizer_name_or_path.value_or(config.model.name_or_path);
}

}  // namespace

std::optional<std::filesystem::path> find_tokenizer_folder(const config::RunConfig& config) {
  const std::string name = name_of(config);
  std::error_code none;
  if (std::filesystem::is_directory(name, none)) return name;
  return hub::cached_snapshot(hub::RepositoryKind::Model, name);
}

std::filesystem::path tokenizer_folder(const config::RunConfig& config) {
  if (const auto folder = find_tokenizer_folder(config)) return *folder;
  const std::string name = name_of(config);
  if (name.empty())
    throw UserError(
        "a tokenizer is required: model=NAME, model.name_or_path=DIR or model.tokenizer_name_or_path=DIR");
  if (!hub::may_be_on_the_hub(name))
    throw UserError(fmt::format(
        "{}: there is no folder {} to read the tokenizer from",
        config.model.tokenizer_name_or_path ? "model.tokenizer_name_or_path" : "model.name_or_path",
        config::shown(name)));
  throw UserError(fmt::format(
      "the tokenizer of '{}' is not on this machine: not a folder, and not in the Hugging Face cache ({}); "
      "download it with '{}', or give a folder: model.tokenizer_name_or_path=DIR",
      config::shown(name), hub::cache_folder().string(),
      hub::fetch_command(hub::RepositoryKind::Model, name)));
}

}  // namespace dpo::data
