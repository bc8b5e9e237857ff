#include "comm/group.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>

namespace dpo::comm {
namespace {

TEST(Single, IsTheIdentity) {
  const auto group = single();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  const at::Tensor values = at::arange(5, at::kFloat), before = values.clone(), other = at::zeros({5});
  group->all_reduce(values).wait();
  group->all_reduce(values, Reduction::max).wait();
  group->broadcast(values, 0).wait();
  EXPECT_TRUE(values.equal(before));
  group->all_gather(other, values).wait();
  EXPECT_TRUE(other.equal(before));
  group->reduce_scatter(other, values + 1).wait();
  EXPECT_TRUE(other.equal(before + 1));
  group->barrier();
  EXPECT_EQ(group->split(7)->size(), 1);
}

TEST(Single, BroadcastsAndGathersTexts) {
  const auto group = single();
  EXPECT_EQ(broadcast_text(*group, "a folder", 0), "a folder");
  EXPECT_EQ(broadcast_text(*group, "", 0), "");
  EXPECT_EQ(gather_texts(*group, "host"), std::vector<std::string>{"host"});
}

}  // namespace
}  // namespace dpo::comm
