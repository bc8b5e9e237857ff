#include "commands/package.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// A folder like site-packages, with dpo and, if wanted, torch.
class PackageTest : public testing::Test {
 protected:
  Package package(int cuda = 0) { return {site_ / "dpo_cpp", "2.11.0", cuda}; }

  void add_torch(const std::string& version, bool cuda, const std::string& name = "torch") {
    write(site_ / name / "version.py", "__version__ = '" + version + "'\ndebug = False\n");
    write(site_ / name / "lib" / "libtorch_cpu.so", "");
    if (cuda) write(site_ / name / "lib" / "libtorch_cuda.so", "");
  }

  std::string failure(const Package& package, const char* libtorch = nullptr) {
    try {
      find_torch(package, libtorch);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  fs::path site_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(PackageTest, IsAFolderWithItsDescription) {
  EXPECT_FALSE(package_in(site_ / "dpo_cpp"));
  write(site_ / "dpo_cpp" / "package.json", R"({"torch": "2.11.0", "cuda": 13})");
  const auto found = package_in(site_ / "dpo_cpp");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->torch, "2.11.0");
  EXPECT_EQ(found->cuda, 13);
  EXPECT_FALSE(package_of_this_program());
  for (const char* damaged : {"", "{", "[]", R"({"torch": 2, "cuda": 13})", R"({"torch": "2.11.0"})"}) {
    write(site_ / "dpo_cpp" / "package.json", damaged);
    EXPECT_THROW(package_in(site_ / "dpo_cpp"), UserError) << damaged;
  }
}

TEST_F(PackageTest, FindsTorchNextToItFirst) {
  add_torch("2.11.0+cpu", false);
  add_torch("2.11.0", false, "other");
  EXPECT_EQ(find_torch(package(), nullptr), site_ / "torch");
  EXPECT_EQ(find_torch(package(), (site_ / "other").c_str()), site_ / "torch");
  fs::remove_all(site_ / "torch");
  EXPECT_EQ(find_torch(package(), (site_ / "other").c_str()), site_ / "other");
}

TEST_F(PackageTest, ReadsTheVersionOfAnUnpackedArchive) {
  write(site_ / "libtorch" / "lib" / "libtorch_cpu.so", "");
  write(site_ / "libtorch" / "build-version", "2.11.0+cpu\n");
  EXPECT_EQ(find_torch(package(), (site_ / "libtorch").c_str()), site_ / "libtorch");
}

TEST_F(PackageTest, NamesWhatIsMissing) {
  const std::string none = failure(package());
  EXPECT_NE(none.find("needs torch 2.11.0, and there is none in " + (site_ / "torch").string() +
                      ": python3 -m pip install torch==2.11.0"),
            std::string::npos)
      << none;
  EXPECT_EQ(failure(package(), ""), none);
  EXPECT_NE(failure(package(), "/nowhere").find("LIBTORCH=/nowhere has no lib/libtorch_cpu.so"),
            std::string::npos);
}

TEST_F(PackageTest, RefusesAnotherVersion) {
  add_torch("2.10.1+cu128", true);
  const std::string other = failure(package());
  EXPECT_NE(
      other.find("built for torch 2.11.0, and " + (site_ / "torch").string() + " is torch 2.10.1+cu128: "),
      std::string::npos)
      << other;
  fs::remove(site_ / "torch" / "version.py");
  EXPECT_NE(failure(package()).find("is an unknown version"), std::string::npos);
}

TEST_F(PackageTest, ForGpusNeedsTheSameCuda) {
  add_torch("2.11.0+cpu", false);
  EXPECT_NE(failure(package(13)).find("has no CUDA (2.11.0+cpu): "), std::string::npos)
      << failure(package(13));
  add_torch("2.11.0+cu128", true);
  EXPECT_NE(failure(package(13))
                .find("built for CUDA 13, and the torch in " + (site_ / "torch").string() +
                      " is for CUDA 12 (2.11.0+cu128): "),
            std::string::npos)
      << failure(package(13));
  for (const char* version : {"2.11.0+cu130", "2.11.0"}) {
    add_torch(version, true);
    EXPECT_EQ(failure(package(13)), "");
  }
}

}  // namespace
}  // namespace dpo::commands
