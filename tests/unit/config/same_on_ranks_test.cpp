#include "config/same_on_ranks.h"

#include <gtest/gtest.h>

#include "config/schema.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

std::map<std::string, std::string> keys_of(const Words& words) {
  return same_on_ranks(compose({with_needed(words), {}, {}}).values);
}

TEST(SameOnRanks, HasEveryKeyButTheFoldersOfAMachine) {
  const auto keys = keys_of({"loss=dpo", "loss.beta=0.1"});
  for (const std::string& key : all_keys()) {
    const bool of_another_loss = key.starts_with("loss.") && !find_field(key)->losses.empty();
    if (of_another_loss || keys.contains(key)) continue;
    EXPECT_TRUE(key == "local_dirs" || find_field(key)->default_text == "{}") << key;
  }
  EXPECT_FALSE(keys.contains("local_dirs"));
  EXPECT_EQ(keys.at("loss.beta"), "0.1");
}

TEST(SameOnRanks, ValuesAreCompared) {
  EXPECT_EQ(keys_of({"local_dirs=[/a]"}), keys_of({"local_dirs=[/b]"}));
  EXPECT_NE(keys_of({"eval_every=64"}), keys_of({"eval_every=128"}));
  EXPECT_NE(keys_of({"data.weights={a: 2}"}), keys_of({"data.weights={a: 3}"}));
  EXPECT_NE(keys_of({"rank_timeout_secs=10"}), keys_of({}));
  EXPECT_EQ(keys_of({"lr=1e-5"}), keys_of({"lr=0.00001"}));
}

}  // namespace
}  // namespace dpo::config
