#include "base/shared_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace dpo {
namespace {

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "done";
}

TEST(SharedFile, IsWrittenBySeveralAtPlacesOfTheirOwn) {
  const auto path = std::filesystem::path(testing::TempDir()) / "dpo_shared_file_test";
  std::filesystem::remove(path);
  SharedFile first(path, 8), second(path);
  second.write(5, "fg");
  first.write(0, "ab");
  first.write(3, "de");
  first.finish();
  second.finish();
  EXPECT_EQ(read_text_file(path, "test"), std::string("ab\0defg\0", 8));
  EXPECT_NE(message_of([&] { SharedFile(path, 8); }).find("failed: File exists"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(SharedFile, NamesWhatFails) {
  EXPECT_EQ(message_of([] { SharedFile("/no/such/file"); }),
            "opening /no/such/file failed: No such file or directory");
  SharedFile full("/dev/full");
  EXPECT_EQ(message_of([&] { full.write(0, "x"); }), "writing /dev/full failed: No space left on device");
}

}  // namespace
}  // namespace dpo
