#include "base/memory_file.h"

#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(MemoryFile, IsReadFromItsBeginning) {
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  const MemoryFile file(text);
  std::ifstream read("/proc/self/fd/" + std::to_string(file.descriptor()));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(read), {}), text);
}

}  // namespace
}  // namespace dpo
