#include "run/profile.h"

#include <gtest/gtest.h>

namespace dpo::run {
namespace {

constexpr double kMillisecond = 1e-3;

TEST(Profile, AssignsKernelsToPartsByTheirNames) {
  EXPECT_EQ(part_of_kernel("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN"), "matmuls");
  EXPECT_EQ(part_of_kernel("void pytorch_flash::flash_fwd_kernel<...cutlass...>"), "attention");
  EXPECT_EQ(part_of_kernel("fmha_cutlassF_f32_aligned_64x64_rf_sm80"), "attention");
  EXPECT_EQ(part_of_kernel("void dpo::cuda::(anonymous namespace)::update_kernel<...>"), "optimizer");
  EXPECT_EQ(part_of_kernel("ncclDevKernel_AllGather_RING_LL"), "communication");
  EXPECT_EQ(part_of_kernel("something_new"), "other");
}

TEST(Profile, OfAGpuSaysHowLongItWasIdle) {
  // Two updates take 20 ms. The second kernel runs beside the first for a millisecond.
  const Profile profile = profile_of({{"nvjet_a", 0, 4'000'000}, {"flash_b", 3'000'000, 9'000'000}},
                                     20 * kMillisecond, 2, /*on_gpu=*/true);
  EXPECT_DOUBLE_EQ(profile.update, 10 * kMillisecond);
  EXPECT_NEAR(profile.idle, 5.5 * kMillisecond, 1e-12);
  ASSERT_EQ(profile.parts.size(), 2U);
  EXPECT_EQ(profile.parts[0].name, "attention");
  EXPECT_NEAR(profile.parts[0].seconds, 3 * kMillisecond, 1e-12);
  EXPECT_NEAR(profile.parts[1].seconds, 2 * kMillisecond, 1e-12);
  EXPECT_DOUBLE_EQ(profile.parts[1].calls, 0.5);
}

TEST(Profile, OfACpuCountsAnOperatorWithoutThoseItCalls) {
  const Profile profile = profile_of({{"aten::linear", 0, 10'000'000, 1},
                                      {"aten::t", 1'000'000, 2'000'000, 1},
                                      {"aten::addmm", 2'000'000, 9'000'000, 1},
                                      {"aten::add", 4'000'000, 6'000'000, 2}},
                                     12 * kMillisecond, 1, /*on_gpu=*/false);
  EXPECT_TRUE(profile.parts.empty());
  ASSERT_EQ(profile.calls.size(), 4U);
  EXPECT_EQ(profile.calls[0].name, "aten::addmm");
  EXPECT_NEAR(profile.calls[0].seconds, 7 * kMillisecond, 1e-12);
  EXPECT_EQ(profile.calls[1].name, "aten::add");  // on another thread
  EXPECT_NEAR(profile.calls[2].seconds, 2 * kMillisecond, 1e-12);
  EXPECT_NEAR(profile.idle, 2 * kMillisecond, 1e-12);
}

}  // namespace
}  // namespace dpo::run
