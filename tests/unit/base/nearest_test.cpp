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

TEST(DidYouMean, EndsAMessageOrIsEmpty) {
  EXPECT_EQ(did_you_mean("betaa", kKeys), "; did you mean 'beta'?");
  EXPECT_EQ(did_you_mean("quantization", kKeys), "");
}

}  // namespace
}  // namespace dpo
