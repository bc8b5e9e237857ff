#include "hub/needed_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace dpo::hub {
namespace {

std::string needed(const std::vector<std::string>& names, const Wanted& wanted,
                   const std::string& index = "") {
  std::vector<HubFile> files;
  for (const std::string& name : names) files.push_back({name, 1, std::string(40, 'a')});
  std::vector<std::string> found;
  for (const HubFile& file : needed_files(files, wanted, [&](const std::string&) { return index; }))
    found.push_back(file.path);
  return fmt::format("{}", fmt::join(found, " "));
}

TEST(NeededFiles, OfAModelAreSafetensorsBeforeBin) {
  EXPECT_EQ(needed({"config.json", "model.safetensors", "pytorch_model.bin", "README.md"}, {Need::weights}),
            "config.json model.safetensors");
  EXPECT_EQ(needed({"config.json", "pytorch_model.bin", "tf_model.h5"}, {Need::weights}),
            "config.json pytorch_model.bin");
  EXPECT_EQ(needed({"config.json", "model.gguf"}, {Need::weights}), "config.json");
}

TEST(NeededFiles, OfSeveralAreThoseOfTheIndex) {
  const std::vector<std::string> names = {"model-1.safetensors", "model-2.safetensors",
                                          "consolidated.safetensors", "model.safetensors.index.json",
                                          "pytorch_model.bin"};
  EXPECT_EQ(needed(names, {Need::weights}), "model.safetensors.index.json");
  const std::string index = R"({"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors",
                                               "c": "model-1.safetensors", "d": "../secret", "e": 1}})";
  EXPECT_EQ(needed(names, {Need::weights}, index),
            "model.safetensors.index.json model-1.safetensors model-2.safetensors");
  EXPECT_EQ(needed(names, {Need::weights}, "nonsense"), "model.safetensors.index.json");
}

TEST(NeededFiles, OfAPlanAreSmall) {
  for (const Need need : {Need::config, Need::tokenizer})
    EXPECT_EQ(needed({"config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja",
                      "onnx/config.json", "additional_chat_templates/tools.jinja"},
                     {need}),
              "config.json tokenizer.json chat_template.jinja additional_chat_templates/tools.jinja");
}

TEST(NeededFiles, OfADataSetAreItsData) {
  const Wanted wanted{Need::data, [](const std::vector<std::string>& paths) {
                        EXPECT_EQ(paths.size(), 3u);
                        return std::vector{paths[1]};
                      }};
  EXPECT_EQ(needed({"README.md", "a/train.jsonl", "b.py"}, wanted), "a/train.jsonl");
}

}  // namespace
}  // namespace dpo::hub
