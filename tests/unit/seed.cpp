// Seeds LibTorch's generator before each test. It starts with random numbers otherwise, so a slightly wrong
// bound would fail only now and then. --gtest_random_seed=N selects other numbers.
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
