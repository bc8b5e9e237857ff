#include "report/series.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "report/metric_log.h"

namespace dpo::report {
namespace {

// Returns a series whose y alternates between 1 and 3.
Series series_of(std::size_t size) {
  Series series;
  for (std::size_t i = 0; i < size; ++i) series.add({2.0 * static_cast<double>(i), i % 2 == 0 ? 1.0 : 3.0});
  return series;
}

TEST(Thinning, KeepsTheEnds) {
  EXPECT_EQ(some_of(3, 5), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(some_of(10'000, 3), (std::vector<std::size_t>{0, 4999, 9999}));
  EXPECT_TRUE(some_of(0, 2).empty());
}

TEST(SeriesOfAShortRun, IsExact) {
  const Series series = series_of(1000);
  const std::vector<Point> means = series.means(100);
  ASSERT_EQ(means.size(), 100u);
  EXPECT_EQ(means.front().x, 9);  // of 0, 2, ... 18
  for (const Point& mean : means) EXPECT_EQ(mean.y, 2);
  EXPECT_EQ(series.means(1000).size(), 1000u);
  EXPECT_EQ(series.means(2000)[7].y, 3);
  const std::vector<Point> some = series.some(3);
  ASSERT_EQ(some.size(), 3u);
  EXPECT_EQ(some[1].x, 998);
  EXPECT_EQ(some[2].x, 1998);
  EXPECT_EQ(series.largest(), 3);
  EXPECT_TRUE(series.median() == 1 || series.median() == 3);
}

TEST(SeriesOfALongRun, HasABoundedNumberOfPointsAndTheMeanOfAll) {
  const std::size_t size = 1'000'003;
  const Series series = series_of(size);
  EXPECT_EQ(series.size(), size);
  EXPECT_EQ(series.last().x, 2.0 * (size - 1));
  EXPECT_LE(series.means(size).size(), Series::kMostGroups);
  const std::vector<Point> means = series.means(1000);
  ASSERT_EQ(means.size(), 1000u);
  for (std::size_t i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(means[i].y, 2, 0.01) << i;
    if (i > 0) {
      EXPECT_GT(means[i].x, means[i - 1].x) << i;
    }
  }
  EXPECT_NEAR(series.means(1)[0].x, size - 1, 1e-6 * size);
  const std::vector<Point> some = series.some(1000);
  EXPECT_EQ(some.size(), 1000u);
  EXPECT_EQ(some.front().x, 0);
  EXPECT_EQ(some.back().x, 2.0 * (size - 1));
}

TEST(Series, MayBeEmpty) {
  EXPECT_TRUE(Series().means(10).empty());
  EXPECT_TRUE(Series().some(10).empty());
  EXPECT_TRUE(std::isnan(Series().median()));
}

TEST(MetricLog, KeepsEveryEvaluation) {
  MetricLog log;
  for (int i = 0; i < 10'000; ++i) {
    const std::string examples = ", \"counters/examples\": " + std::to_string(i) + "}";
    log.add_line("{\"loss/train\": 1" + examples);
    log.add_line("{\"loss/eval\": 2, \"rewards_eval/accuracies\": 0.5" + examples);
  }
  ASSERT_EQ(log.evaluations().size(), 10'000u);
  EXPECT_EQ(log.evaluations()[5000].examples, 5000);
  EXPECT_EQ(log.evaluations()[5000].accuracy, 0.5);
  EXPECT_FALSE(log.evaluations()[5000].margin.has_value());
}

// A file that is not from a run may have any number of names.
TEST(MetricLog, HasABoundedNumberOfMetrics) {
  MetricLog log;
  for (int i = 0; i < 5000; ++i)
    log.add_line("{\"m" + std::to_string(i) + "\": 1, \"counters/examples\": 1}");
  log.add_line("{\"" + std::string(100'000, 'x') + "\": 1, \"counters/examples\": 1}");
  EXPECT_EQ(log.all().size(), 1000u);
}

}  // namespace
}  // namespace dpo::report
