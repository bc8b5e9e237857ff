#include "config/defaults.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "config/field.h"
#include "config/print.h"

namespace dpo::config {
namespace {

Resolved resolved(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"exp_name=e", "model.name_or_path=m"});
  return compose({.overrides = std::move(overrides), .config_file = {}, .config_dirs = {}});
}

TEST(Defaults, AreKeysThatNobodyGave) {
  const Resolved run = resolved({"max_length=512", "loss=dpo", "loss.beta=0.2", "batch_size=8"});
  EXPECT_TRUE(is_given(run, "max_length"));
  EXPECT_FALSE(is_changed(run, "max_length"));  // to the default
  EXPECT_TRUE(is_changed(run, "batch_size"));
  EXPECT_TRUE(is_given(run, "loss.beta"));
  EXPECT_FALSE(is_given(run, "max_prompt_length"));
  EXPECT_FALSE(is_given(run, "loss.reference_free"));  // set by a built-in preset
  EXPECT_FALSE(is_given(run, "no.such.key"));
  EXPECT_FALSE(is_changed(resolved({"model=pythia28"}), "model.block_name"));
}

// The user's file has the name of a built-in preset.
TEST(Defaults, AreNotTheValuesOfAFile) {
  const std::filesystem::path before = std::filesystem::current_path(),
                              folder = std::filesystem::path(testing::TempDir()) / "dpo_defaults";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  std::ofstream("config.yaml") << "max_length: 2048\n";
  const Resolved run = compose({.overrides = {"loss=sft", "exp_name=e", "model.name_or_path=m"},
                                .config_file = "config.yaml",
                                .config_dirs = {}});
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(run.values.max_length, 2048);
  EXPECT_TRUE(is_given(run, "max_length"));
}

TEST(Defaults, TakeAnotherValue) {
  Resolved run = resolved({"loss=sft"});
  set_default(run, "max_length", to_node(std::int64_t{128}));
  EXPECT_EQ(run.values.max_length, 128);
  EXPECT_FALSE(is_given(run, "max_length"));
  EXPECT_NE(to_yaml(run).find("max_length: 128"), std::string::npos);
  EXPECT_EQ(origin_of(run, "max_length"), "default, adapted to this run");
  set_default(run, "eval_every", to_node(std::int64_t{30000}));  // nullable
  EXPECT_EQ(run.values.eval_every, 30000);
}

}  // namespace
}  // namespace dpo::config
