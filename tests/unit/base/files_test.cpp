#include "base/files.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo {
namespace {

std::string message_of(const std::filesystem::path& path, std::size_t limit = 1000) {
  try {
    read_text_file(path, "the configuration", limit);
  } catch (const UserError& error) {
    return error.what();
  }
  return "read";
}

TEST(ReadTextFile, ReadsBytesAsTheyAre) {
  const auto path = std::filesystem::path(testing::TempDir()) / "dpo_files_test";
  const std::string text("a\r\n\0b\xff", 6);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(read_text_file(path, "test"), text);
  EXPECT_EQ(message_of(path, 5), "the configuration: " + path.string() + " is larger than 5 bytes");
  std::filesystem::remove(path);
}

TEST(ReadTextFile, NamesWhatItCannotRead) {
  EXPECT_EQ(message_of("/no/such/file"),
            "the configuration: cannot read /no/such/file: No such file or directory");
  EXPECT_EQ(message_of("/"), "the configuration: / is a folder, expected a file");
}

TEST(ReadTextFile, StopsAtTheLimitOfAnEndlessFile) {
  EXPECT_EQ(message_of("/dev/zero"), "the configuration: /dev/zero is larger than 1000 bytes");
}

TEST(UserError, JoinsItsProblems) {
  const UserError error(std::vector<std::string>{"one", "two"});
  EXPECT_STREQ(error.what(), "one\ntwo");
  EXPECT_EQ(error.problems().size(), 2u);
}

}  // namespace
}  // namespace dpo
