#include "base/shell.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(ShellCommand, QuotesAndWraps) {
  EXPECT_EQ(shell_command({"dpo", "train", "a=[b/c]"}), "dpo train a=[b/c]");
  EXPECT_EQ(shell_command({"x=['a b']"}), R"('x=['\''a b'\'']')");
  const std::string word(60, 'w');
  EXPECT_EQ(shell_command({word, word}), word + " \\\n    " + word);
}

}  // namespace
}  // namespace dpo
