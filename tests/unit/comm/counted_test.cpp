#include "comm/counted.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "base/progress_count.h"

namespace dpo::comm {
namespace {

// A group of two whose operations do nothing.
class IdleGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Work all_reduce(const at::Tensor&, Reduction) override { return {}; }
  Work all_gather(const at::Tensor&, const at::Tensor&) override { return {}; }
  Work reduce_scatter(const at::Tensor&, const at::Tensor&) override { return {}; }
  Work broadcast(const at::Tensor&, int) override { return {}; }
  void barrier() override {}
  std::shared_ptr<Group> split(int colour) override {
    return colour == 0 ? single() : std::make_shared<IdleGroup>();
  }
};

TEST(Counted, CountsAnOperationWhenItBeginsAndProgressWhenItEnds) {
  const auto count = std::make_shared<OperationCount>(0);
  const auto group = counted(std::make_shared<IdleGroup>(), count);
  const at::Tensor one = at::ones({1});
  const std::uint64_t before = progress_count();
  Work work = group->all_reduce(one);
  EXPECT_EQ(*count, 1u);
  EXPECT_EQ(progress_count(), before);
  work.wait();
  EXPECT_EQ(progress_count(), before + 1);
  group->all_gather(one, one).wait();
  group->reduce_scatter(one, one).wait();
  group->broadcast(one, 0).wait();
  group->barrier();
  EXPECT_EQ(*count, 5u);
  EXPECT_EQ(progress_count(), before + 5);
}

TEST(Counted, PartsCountToo) {
  const auto count = std::make_shared<OperationCount>(0);
  const auto group = counted(std::make_shared<IdleGroup>(), count);
  group->split(1)->barrier();
  EXPECT_EQ(*count, 2u);
  group->split(0)->barrier();  // a group of one rank, so nothing waits
  EXPECT_EQ(*count, 3u);
}

}  // namespace
}  // namespace dpo::comm
