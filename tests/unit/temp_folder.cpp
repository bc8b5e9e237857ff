// Gives each test program its own temporary folder, so that two ctest runs at the same time share no files.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

class OwnTempFolder : public testing::Environment {
  void SetUp() override {
    folder_ = testing::TempDir() + "dpo_test_XXXXXX";
    ASSERT_TRUE(::mkdtemp(folder_.data())) << folder_;
    ::setenv("TEST_TMPDIR", folder_.c_str(), 1);  // testing::TempDir() reads this
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

// GoogleTest owns its environments.
const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new OwnTempFolder);

}  // namespace
