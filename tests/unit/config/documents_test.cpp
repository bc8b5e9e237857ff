// Checks that the files generated from the schema are current. With DPO_WRITE_GENERATED=1 it writes them.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "config/assets.h"
#include "config/losses.h"
#include "config/print.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

const std::filesystem::path kSource = DPO_SOURCE_DIR;

// Returns a preset with the defaults of all keys of a section that `has` is true for.
template <class Condition>
std::string preset(const std::string& section, const KeyValue& other, Condition has) {
  std::string text;
  for (const Field& field : schema()) {
    const Path path = split_path(field.key);
    if (path.front() != section || !has(field)) continue;
    text += fmt::format("{}: {}\n", path.back(), path.back() == other.key ? other.value : field.default_text);
  }
  return text;
}

std::string loss_preset(Loss loss) {
  const auto has = [loss](const Field& field) {
    return field.key != "loss.name" &&
           (field.losses.empty() || std::ranges::find(field.losses, loss) != field.losses.end());
  };
  return fmt::format("name: {}\n", name_of(loss)) + preset("loss", facts_of(loss).preset, has);
}

// Returns the generated files by their paths.
std::map<std::string, std::string> generated_files() {
  const auto all = [](const Field&) { return true; };
  std::map<std::string, std::string> files = {
      {"configs/config.yaml", default_config_yaml()},
      {"configs/model/blank_model.yaml",
       "# Any model: the other presets build on this one, and your own may too.\n" +
           preset("model", {}, all)},
      {"docs/configuration.md", configuration_markdown()}};
  for (const std::string& name : names_of(all_choices<Adapter>()))
    files[fmt::format("configs/adapter/{}.yaml", name)] = preset("adapter", {"name", name}, all);
  for (const Loss loss : all_choices<Loss>())
    files[fmt::format("configs/loss/{}.yaml", name_of(loss))] = loss_preset(loss);
  return files;
}

TEST(Documents, GeneratedFilesAreCurrent) {
  const bool writes = std::getenv("DPO_WRITE_GENERATED") != nullptr;
  for (const auto& [path, text] : generated_files()) {
    if (writes) std::ofstream(kSource / path) << text;
    EXPECT_TRUE(std::filesystem::exists(kSource / path) && read_text_file(kSource / path, "file") == text)
        << path << " is not current; to write it again: DPO_WRITE_GENERATED=1 ./run test unit.config";
  }
}

TEST(Documents, PresetsAreBuiltIn) {
  for (const auto& [path, text] : generated_files())
    if (path.starts_with("configs/")) {
      EXPECT_EQ(asset(path.substr(std::string_view("configs/").size())).value_or(""), text) << path;
    }
}

}  // namespace
}  // namespace dpo::config
