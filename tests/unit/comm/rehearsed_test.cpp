// Checks what is copied and how long it takes on a wire that only records.
#include "comm/rehearsed.h"

#include <stdexcept>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace dpo::comm {
namespace {

// Records transfers, and makes their copies only when they are waited for.
class NotingWire : public Wire {
 public:
  Work send(double seconds, const std::function<void()>& copies) override {
    sent.push_back(seconds);
    return Work([this, copies] {
      copies();
      ++waited;
    });
  }

  std::vector<double> sent;
  int waited = 0;
};

class RehearsedGroupTest : public testing::Test {
 protected:
  static constexpr double kSpeed = 100;  // bytes per second
  std::shared_ptr<NotingWire> wire_ = std::make_shared<NotingWire>();
  std::shared_ptr<Transfers> transfers_ = std::make_shared<Transfers>();
  std::shared_ptr<Group> group_ = rehearsed({2, 4, kSpeed, wire_, transfers_});
  at::Tensor whole_ = at::arange(100, at::kFloat), part_ = at::full({25}, 7, at::kFloat);
};

TEST_F(RehearsedGroupTest, IsOneRankOfMany) {
  EXPECT_EQ(group_->rank(), 2);
  EXPECT_EQ(group_->size(), 4);
  group_->barrier();
  EXPECT_TRUE(wire_->sent.empty());
  EXPECT_THROW(group_->split(0), std::logic_error);
}

TEST_F(RehearsedGroupTest, TakesTheTimeOfARing) {
  group_->all_gather(whole_, part_).wait();
  group_->reduce_scatter(part_, whole_).wait();
  group_->all_reduce(whole_).wait();
  group_->broadcast(whole_, 0).wait();
  EXPECT_EQ(wire_->sent, (std::vector<double>{3, 3, 6, 3}));  // three of four parts of 100 bytes
  EXPECT_EQ(transfers_->seconds, 15);
}

TEST_F(RehearsedGroupTest, TakesNoTimeIfAskedToAndStillCounts) {
  transfers_->take_time = false;
  group_->all_gather(whole_, part_).wait();
  EXPECT_EQ(wire_->sent, std::vector<double>{0});
  EXPECT_EQ(wire_->waited, 1);
  EXPECT_EQ(transfers_->seconds, 3);
}

TEST_F(RehearsedGroupTest, BeginsTransfersInOrderAndEndsThemWhenWaitedFor) {
  Work gather = group_->all_gather(whole_, part_);
  Work reduce = group_->all_reduce(part_);
  EXPECT_EQ(wire_->sent, (std::vector<double>{3, 1.5}));
  EXPECT_EQ(wire_->waited, 0);
  gather.wait();
  EXPECT_EQ(wire_->waited, 1);
  reduce.wait();
  EXPECT_EQ(wire_->waited, 2);
}

TEST_F(RehearsedGroupTest, GathersAsIfAllRanksHadThisPart) {
  const at::Tensor own = at::tensor({1.0, 2.0}), into = at::zeros({8}, at::kDouble);
  group_->all_gather(into, own).wait();
  EXPECT_TRUE(at::equal(into, at::tensor({1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0})));
}

TEST_F(RehearsedGroupTest, GathersAPartThatIsInPlace) {
  const at::Tensor own = whole_.narrow(0, 50, 25);
  const at::Tensor before = own.clone();
  group_->all_gather(whole_, own).wait();
  for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(at::equal(whole_.narrow(0, 25 * rank, 25), before));
}

// Any other bytes could be scales of quantized weights that are NaN.
TEST_F(RehearsedGroupTest, GathersBytesThatAreSmallNumbers) {
  const at::Tensor own = at::full({4}, 0xff, at::kByte), into = at::zeros({16}, at::kByte);
  group_->all_gather(into, own).wait();
  EXPECT_TRUE(at::equal(into.narrow(0, 8, 4), own));
  const at::Tensor others = into.view(at::kFloat);
  for (const int other : {0, 1, 3}) EXPECT_NEAR(others[other].item<float>(), 0.0115, 1e-4);
}

TEST_F(RehearsedGroupTest, ReducesToThisRanksPart) {
  const at::Tensor from = at::full({8}, 3, at::kBFloat16);
  const at::Tensor own = from.narrow(0, 4, 2);  // where the gradients of a sharded block are
  group_->reduce_scatter(own, from).wait();
  EXPECT_TRUE(at::equal(from, at::tensor({3, 3, 3, 3, 12, 12, 3, 3}).to(at::kBFloat16)));
}

TEST_F(RehearsedGroupTest, ReducesAsIfAllRanksHadTheSame) {
  const at::Tensor sum = at::tensor({1.5, -2.0}), most = sum.clone();
  group_->all_reduce(sum).wait();
  group_->all_reduce(most, Reduction::max).wait();
  EXPECT_TRUE(at::equal(sum, at::tensor({6.0, -8.0})));
  EXPECT_TRUE(at::equal(most, at::tensor({1.5, -2.0})));
}

TEST_F(RehearsedGroupTest, OneRankSendsNothing) {
  const auto alone = rehearsed({0, 1, kSpeed, wire_, transfers_});
  alone->all_reduce(whole_).wait();
  alone->all_gather(whole_, whole_).wait();
  EXPECT_TRUE(wire_->sent.empty());
  EXPECT_EQ(transfers_->seconds, 0);
}

}  // namespace
}  // namespace dpo::comm
