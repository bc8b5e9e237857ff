#include "commands/progress.h"

#include <gtest/gtest.h>

#include "base/terminal.h"

namespace dpo::commands {
namespace {

using std::chrono::seconds;

// Shows progress on a pipe for work that reports every second, at times that the test sets.
class InAPipe : public testing::Test {
 protected:
  void SetUp() override {
    if (Terminal::get().can_show_live_line()) GTEST_SKIP() << "stderr is a terminal";
  }

  std::string shown(const std::string& what, std::int64_t steps) {
    testing::internal::CaptureStderr();
    for (std::int64_t done = 0; done <= steps; ++done, now_ += seconds(1))
      progress_.show(what, done, steps, "tokens");
    return testing::internal::GetCapturedStderr();
  }

  ProgressLine::Clock::time_point now_{seconds(1000)};
  ProgressLine progress_{[this] { return now_; }};
};

TEST_F(InAPipe, WorkHasALineAMinute) {
  EXPECT_EQ(shown("sampling", 150),
            "sampling: 5 of 150 tokens, 5 s\nsampling: 65 of 150 tokens, 65 s\n"
            "sampling: 125 of 150 tokens, 2 min\nsampling: 150 of 150 tokens, 2 min\n");
}

TEST_F(InAPipe, QuickWorkHasNone) { EXPECT_EQ(shown("sampling", 4), ""); }

TEST_F(InAPipe, SoHasWorkThatComesAgain) {
  EXPECT_EQ(shown("sampling", 20), "sampling: 5 of 20 tokens, 5 s\nsampling: 20 of 20 tokens, 20 s\n");
  EXPECT_EQ(shown("evaluating", 10), "evaluating: 5 of 10 tokens, 5 s\nevaluating: 10 of 10 tokens, 10 s\n");
  EXPECT_EQ(shown("sampling", 20), "");
  EXPECT_EQ(shown("sampling", 20), "sampling: 12 of 20 tokens, 12 s\nsampling: 20 of 20 tokens, 20 s\n");
}

}  // namespace
}  // namespace dpo::commands
