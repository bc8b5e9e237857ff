#include "base/open_file.h"

#include <cerrno>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/run_lock.h"
#include "base/sha256.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

// A folder in which another user controls the file called NAME.
class OpenFile : public testing::Test {
 protected:
  OpenFile() : folder_(fs::path(testing::TempDir()) / "dpo_open_file_test"), name_(folder_ / "name") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    write_file(victim_file(), "mine\n");
  }
  ~OpenFile() override {
    EXPECT_EQ(read_text_file(victim_file(), "test"), "mine\n") << "a file elsewhere was written to";
    fs::remove_all(folder_);
  }

  fs::path victim_file() const { return folder_ / "victim"; }

  template <class Work>
  static std::string problem_of(const Work& work) {
    try {
      work();
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  }

  std::string opening(int flags = O_RDWR | O_CREAT, Owner owner = Owner::this_user) const {
    return problem_of([&] {
      const int descriptor = open_to_write(name_, flags, owner);
      if (descriptor < 0) throw UserError(std::to_string(errno));
      EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
      EXPECT_EQ(::fcntl(descriptor, F_GETFL) & (O_APPEND | O_NONBLOCK), flags & O_APPEND);
      ::close(descriptor);
    });
  }
  std::string refusal(const std::string& why) const {
    return name_.string() + " " + why + ", so nothing is written to it; remove it";
  }

  fs::path folder_, name_;
};

TEST_F(OpenFile, CreatesAndOpensOwnFiles) {
  EXPECT_EQ(opening(O_WRONLY), std::to_string(ENOENT));
  EXPECT_EQ(opening(), "none");
  EXPECT_EQ(opening(O_WRONLY | O_APPEND), "none");
  EXPECT_EQ(opening(O_WRONLY | O_CREAT | O_EXCL), std::to_string(EEXIST));
}

TEST_F(OpenFile, RefusesLinks) {
  fs::create_symlink(victim_file(), name_);
  EXPECT_EQ(opening(), refusal("is a symbolic link"));
  EXPECT_EQ(opening(O_WRONLY, Owner::anyone), refusal("is a symbolic link"));
  fs::remove(name_);
  fs::create_symlink(folder_ / "absent", name_);
  EXPECT_EQ(opening(), refusal("is a symbolic link"));
  EXPECT_FALSE(fs::exists(folder_ / "absent")) << "no file is made where a link points to";
  fs::remove(name_);
  fs::create_hard_link(victim_file(), name_);
  EXPECT_EQ(opening(), refusal("has several names (hard links)"));
}

TEST_F(OpenFile, RefusesWhatIsNoFileWithoutWaitingForIt) {
  ASSERT_EQ(::mkfifo(name_.c_str(), 0666), 0);
  for (const int access : {O_WRONLY, O_RDWR})
    EXPECT_EQ(opening(access | O_CREAT), refusal("is not a regular file"));
  fs::remove(name_);
  fs::create_directory(name_);
  EXPECT_EQ(opening(O_RDWR), refusal("is not a regular file"));
}

TEST_F(OpenFile, RefusesFilesOfOthersWhereTheyMatter) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write_file(name_, "");
  ASSERT_EQ(::chown(name_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(opening(), refusal("belongs to another user"));
  EXPECT_EQ(opening(O_RDWR, Owner::anyone), "none") << "nothing private is written to it, such as to a lock";
}

TEST_F(OpenFile, LogsAndLocksAndSharedFilesAreOpenedSo) {
  for (const char* name : {"log.txt", RunLock::kName, "model.safetensors"})
    fs::create_symlink(victim_file(), folder_ / name);
  const auto why = [&](const char* name) {
    return (folder_ / name).string() + " is a symbolic link, so nothing is written to it; remove it";
  };
  EXPECT_EQ(problem_of([&] { LineFile(folder_ / "log.txt"); }), why("log.txt"));
  EXPECT_EQ(problem_of([&] { RunLock{folder_}; }), why(RunLock::kName));
  EXPECT_EQ(problem_of([&] { SharedFile(folder_ / "model.safetensors"); }), why("model.safetensors"));
}

TEST_F(OpenFile, ReplacingAFileReplacesALink) {
  fs::create_symlink(victim_file(), name_);
  write_file(name_, "new");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(name_)));
}

TEST_F(OpenFile, LinesAreAdded) {
  for (const char* line : {"first", "second"}) EXPECT_TRUE(LineFile(name_).add(line));
  EXPECT_EQ(read_text_file(name_, "test"), "first\nsecond\n");
  EXPECT_FALSE(LineFile(folder_ / "none" / "log.txt").add("line"));
}

// Opening a pipe for reading would wait for a process that writes to it.
TEST_F(OpenFile, NoPipeIsReadWhereAFileShouldBe) {
  ASSERT_EQ(::mkfifo(name_.c_str(), 0666), 0);
  const std::string refused = name_.string() + " is a pipe, a socket or a device, expected a file";
  EXPECT_EQ(problem_of([&] { read_text_file(name_, "model"); }), "model: " + refused);
  EXPECT_EQ(problem_of([&] { PositionedFile(name_, "weights"); }), "weights: " + refused);
  EXPECT_EQ(problem_of([&] { sha256_of_file(name_); }), "reading: " + refused);
  EXPECT_EQ(problem_of([&] { MappedFile(name_, "weights"); }), "weights: " + refused);
  fs::remove(name_);
  fs::create_symlink("/dev/zero", name_);
  EXPECT_EQ(problem_of([&] { read_text_file(name_, "model"); }), "model: " + refused);
  EXPECT_EQ(read_text_file("/dev/null", "an argument"), "");
}

}  // namespace
}  // namespace dpo
