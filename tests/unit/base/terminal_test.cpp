#include "base/terminal.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(Terminal, CountsColumnsAtMost) {
  EXPECT_EQ(columns_of("loss 0.5"), 8u);
  EXPECT_EQ(columns_of("größe"), 5u);
  EXPECT_EQ(columns_of("日本"), 4u);
}

TEST(Terminal, CutsWholeCharacters) {
  EXPECT_EQ(cut_to_columns("größe", 3), "grö");
  EXPECT_EQ(cut_to_columns("日本", 3), "日");
  EXPECT_EQ(cut_to_columns("日本", 1), "");
  EXPECT_EQ(cut_to_columns("a\nb\x1b[31m\xff", 20), "a?b?[31m\uFFFD");
}

}  // namespace
}  // namespace dpo
