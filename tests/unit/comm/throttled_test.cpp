// Checks what is sent and when it arrives, in simulated time. No test reads a clock.
#include "comm/throttled.h"

#include <vector>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace dpo::comm {
namespace {

// A group of four ranks, three of which do nothing. It records its calls.
class Noting : public Group {
 public:
  explicit Noting(std::vector<std::string>& calls) : calls_(calls) {}

  int rank() const override { return 1; }
  int size() const override { return 4; }
  Work all_reduce(const at::Tensor&, Reduction reduction) override {
    return noted(reduction == Reduction::max ? "max" : "sum");
  }
  Work all_gather(const at::Tensor&, const at::Tensor&) override { return noted("gather"); }
  Work reduce_scatter(const at::Tensor&, const at::Tensor&) override { return noted("scatter"); }
  Work broadcast(const at::Tensor&, int root) override { return noted("root " + std::to_string(root)); }
  void barrier() override { calls_.push_back("barrier"); }
  std::shared_ptr<Group> split(int colour) override {
    calls_.push_back("split " + std::to_string(colour));
    return std::make_shared<Noting>(calls_);
  }

 private:
  Work noted(const std::string& call) {
    calls_.push_back(call);
    return Work([this, call] { calls_.push_back(call + " waited for"); });
  }

  std::vector<std::string>& calls_;
};

class ThrottledGroup : public testing::Test {
 protected:
  static constexpr double kFast = 1e18;  // bytes per second, so fast that nothing waits
  std::vector<std::string> calls_;
  std::shared_ptr<Link> link_ = std::make_shared<Link>(kFast);
  std::shared_ptr<Group> group_ = throttled(std::make_shared<Noting>(calls_), link_);
  at::Tensor whole_ = at::zeros({100}, at::kFloat), part_ = at::zeros({25}, at::kFloat);
};

TEST_F(ThrottledGroup, CountsTheBytesOfARing) {
  group_->all_gather(whole_, part_).wait();
  EXPECT_EQ(link_->sent(), 300);  // three of the four parts of 400 bytes come from others
  group_->reduce_scatter(part_, whole_).wait();
  EXPECT_EQ(link_->sent(), 600);
  group_->all_reduce(whole_).wait();  // a scatter and a gather
  EXPECT_EQ(link_->sent(), 1200);
  group_->broadcast(whole_, 2).wait();
  EXPECT_EQ(link_->sent(), 1500);
  group_->barrier();
  EXPECT_EQ(link_->sent(), 1500);
  EXPECT_EQ(group_->rank(), 1);
  EXPECT_EQ(group_->size(), 4);
}

TEST_F(ThrottledGroup, PassesEverythingOn) {
  group_->all_reduce(whole_, Reduction::max).wait();
  Work gather = group_->all_gather(whole_, part_);
  group_->broadcast(whole_, 2);
  gather.wait();
  group_->barrier();
  EXPECT_EQ(calls_, (std::vector<std::string>{"max", "max waited for", "gather", "root 2",
                                              "gather waited for", "barrier"}));
}

TEST_F(ThrottledGroup, GroupsOfARankShareItsLink) {
  const auto other = group_->split(7);
  other->reduce_scatter(part_, whole_).wait();
  EXPECT_EQ(link_->sent(), 300);
  EXPECT_EQ(calls_.front(), "split 7");
}

TEST(Link, SendsOneAfterTheOther) {
  Link link(100);
  EXPECT_EQ(link.send(200, 10), 12);
  EXPECT_EQ(link.send(100, 11), 13);  // waits for the first
  EXPECT_EQ(link.send(100, 20), 21);  // idle until then
  EXPECT_EQ(link.sent(), 400);
}

TEST(Link, OneRankSendsNothing) {
  const auto link = std::make_shared<Link>(1e-9);  // so slow that a single byte would never arrive
  const auto alone = throttled(single(), link);
  const at::Tensor tensor = at::zeros({10});
  alone->all_reduce(tensor).wait();
  alone->all_gather(tensor, tensor).wait();
  EXPECT_EQ(link->sent(), 0);
}

}  // namespace
}  // namespace dpo::comm
