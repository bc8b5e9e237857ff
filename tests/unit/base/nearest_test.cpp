#include "base/nearest.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

const std::vector<std::string> kKeys = {"batch_size", "eval_batch_size", "lr", "beta", "trainer"};

TEST(NearestName, FindsWhatWasMeant) {
  EXPECT_EQ(nearest_name("bacth_size", kKeys), "batch_size");  // neighbours swapped
  EXPECT_EQ(nearest_name("BATCH_SIZE", kKeys), "batch_size");
  EXPECT_EQ(nearest_name("trainr", kKeys), "trainer");
  EXPECT_EQ(nearest_name("lrr", kKeys), "lr");
}

TEST(NearestName, SuggestsNothingForStrangers) {
  EXPECT_EQ(nearest_name("quantization", kKeys), std::nullopt);
  EXPECT_EQ(nearest_name("", kKeys), std::nullopt);
  EXPECT_EQ(nearest_name("lr", {}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), kKeys), std::nullopt);
}

TEST(NearestName, OffersOnlyWhatCanBeMeant) {
  // Another version or size is not a typing error.
  EXPECT_EQ(nearest_name("qwen3_5", {"qwen3", "qwen2"}), std::nullopt);
  EXPECT_EQ(nearest_name("gemma3-12b", {"gemma3-1b", "gemma3-4b"}), std::nullopt);
  EXPECT_EQ(nearest_name("gpt2xl", {"gpt2-xl"}), "gpt2-xl");
  // A short name with another letter is not a typing error either, though a missing, doubled or swapped
  // letter is.
  for (const char* other : {"grpo", "ppo", "kpo"})
    EXPECT_EQ(nearest_name(other, {"orpo", "cpo", "ipo", "dpo"}), std::nullopt) << other;
  for (const char* slip : {"dop", "dppo", "do"}) EXPECT_EQ(nearest_name(slip, {"dpo", "kto"}), "dpo") << slip;
  EXPECT_EQ(nearest_name("export", {"report"}), std::nullopt);
  EXPECT_EQ(nearest_name("reprot", {"report"}), "report");
}

TEST(DidYouMean, EndsAMessageOrIsEmpty) {
  EXPECT_EQ(did_you_mean("betaa", kKeys), "; did you mean 'beta'?");
  EXPECT_EQ(did_you_mean("quantization", kKeys), "");
}

}  // namespace
}  // namespace dpo
