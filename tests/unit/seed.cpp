// LibTorch's own generator starts anywhere, so that a bound that is nearly right would fail now and then.
// Each test starts from the same numbers; --gtest_random_seed=N gives others.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace {

class SeedsEachTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    at::manual_seed(static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed)));
  }
};

// GoogleTest owns its listeners.
const bool listening = (testing::UnitTest::GetInstance()->listeners().Append(new SeedsEachTest), true);

}  // namespace
