#include "base/quantity.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(Quantity, Counts) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(-487424), "-487,424");
  EXPECT_EQ(plural(1, "update"), "1 update");
  EXPECT_EQ(plural(1000, "update"), "1,000 updates");
  EXPECT_EQ(plural(1, "process"), "1 process");
  EXPECT_EQ(plural(2, "process"), "2 processes");
  EXPECT_EQ(short_count(8000), "8,000");
  EXPECT_EQ(short_count(487'424), "487k");
  EXPECT_EQ(short_count(999'999), "1.00M");
  EXPECT_EQ(short_count(124'439'808), "124M");
  EXPECT_EQ(short_count(70'426'624), "70.4M");
  EXPECT_EQ(short_count(2'775'208'960), "2.78B");
  EXPECT_EQ(short_count(1'000'000'000'000), "1.00T");
}

TEST(Quantity, Sizes) {
  EXPECT_EQ(file_size(0), "0 B");
  EXPECT_EQ(file_size(256), "256 B");
  EXPECT_EQ(file_size(1'949'696), "1.9 MB");
  EXPECT_EQ(file_size(16'680'192), "16.7 MB");
  EXPECT_EQ(file_size(999'999), "1.0 MB");
  EXPECT_EQ(file_size(5'550'417'920), "5.6 GB");
  EXPECT_EQ(memory_size(97.0 * 1024), "97.0 KiB");
  EXPECT_EQ(memory_size(22.8 * (1 << 30)), "22.8 GiB");
  EXPECT_EQ(memory_size(5000.0 * (1 << 30)), "5000 GiB");
}

TEST(Quantity, Durations) {
  EXPECT_EQ(rough_duration(0.01), "1 s");
  EXPECT_EQ(rough_duration(40.2), "40 s");
  EXPECT_EQ(rough_duration(170), "3 min");
  EXPECT_EQ(rough_duration(9000), "2.5 h");
  EXPECT_EQ(rough_duration(4.1 * 86400), "4.1 days");
  EXPECT_EQ(exact_duration(0.0153), "15 ms");
  EXPECT_EQ(exact_duration(2.46), "2.5 s");
  EXPECT_EQ(exact_duration(105.5), "1.8 min");
  for (const double seconds : {10.0, 40.2, 700.0, 9000.0})  // one rule for all durations that are shown
    EXPECT_EQ(exact_duration(seconds), rough_duration(seconds));
}

}  // namespace
}  // namespace dpo
