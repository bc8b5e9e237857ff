#include "base/secret.h"

#include <set>

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(Secret, HmacIsThatOfRfc4231) {
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Secret, RandomBytesDiffer) {
  std::set<std::string> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(random_hex(16));
  EXPECT_EQ(drawn.size(), 1000u);
  EXPECT_EQ(drawn.begin()->size(), 32u);
  EXPECT_EQ(random_hex(0), "");
  EXPECT_EQ(make_token().size(), 32u);
  EXPECT_NE(make_token(), make_token());
}

TEST(Secret, Compares) {
  EXPECT_TRUE(is_same_secret("abc", "abc"));
  EXPECT_FALSE(is_same_secret("abc", "abd"));
  EXPECT_FALSE(is_same_secret("abc", "ab"));
  EXPECT_TRUE(is_same_secret("", ""));
}

}  // namespace
}  // namespace dpo
