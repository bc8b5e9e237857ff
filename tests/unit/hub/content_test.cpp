#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "hub/content_hash.h"
#include "hub/partial_file.h"
#include "unit/full_disk.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

// These hashes are from: echo hello | git hash-object --stdin; echo hello | sha256sum
constexpr const char* kHello = "hello\n";
constexpr const char* kGitSum = "ce013625030ba8dba906f756967f9e9ca394464a";
constexpr const char* kSha256Sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

TEST(ContentHash, IsGitsOrSha256) {
  for (const char* expected : {kGitSum, kSha256Sum}) {
    ContentHash hash(expected, 6);
    hash.add("hel");
    hash.add("lo\n");
    EXPECT_TRUE(hash.matches());
    hash.restart();
    hash.add("hallo\n");
    EXPECT_FALSE(hash.matches());
  }
}

class Partial : public testing::Test {
 protected:
  Partial() : folder_(fs::path(testing::TempDir()) / "dpo_hub_partial_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Partial() override { fs::remove_all(folder_); }

  // Returns the name of a file that another process left.
  fs::path leftover(const std::string& host, int process = 0) const {
    return folder_ / fmt::format("x.{}-{}-0123abcd.incomplete", host, process);
  }
  static std::string this_host() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    return host.data();
  }

  fs::path folder_;
  fs::path blob() const { return folder_ / "x"; }
};

TEST_F(Partial, ContinuesWhatAnEndedProcessLeft) {
  std::ofstream(leftover(this_host())) << "hel";
  PartialFile file(blob(), kSha256Sum, 6);
  EXPECT_EQ(file.size(), 3);
  file.append("lo\n");
  EXPECT_TRUE(file.matches());
  file.finish();
  EXPECT_EQ(read_text_file(blob(), "test"), kHello);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Partial, DoesNotTouchWhatOthersMayBeWriting) {
  for (const fs::path& theirs : {leftover(this_host(), ::getppid()), leftover("another-host"),
                                 folder_ / "x.0123abcd.incomplete", folder_ / "xy.h-0-0.incomplete"})
    std::ofstream(theirs) << "hel";
  EXPECT_EQ(PartialFile(blob(), kSha256Sum, 6).size(), 0);
  EXPECT_TRUE(fs::exists(leftover("another-host")));
  fs::last_write_time(leftover("another-host"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(find_partial(blob()), leftover("another-host"));
}

TEST_F(Partial, StartsOverInANewFile) {
  std::ofstream(leftover(this_host())) << "something else";
  const int theirs = ::open(leftover(this_host()).c_str(), O_RDONLY | O_CLOEXEC);
  PartialFile file(blob(), kGitSum, 6);
  EXPECT_EQ(file.size(), 0);
  file.append("hallo\n");
  file.restart();
  file.append(kHello);
  EXPECT_TRUE(file.matches());
  std::array<char, 20> bytes{};
  EXPECT_EQ(::read(theirs, bytes.data(), bytes.size()), 14);  // an open descriptor still sees its content
  ::close(theirs);
}

TEST_F(Partial, ThatCannotBeWrittenSaysWhatToDo) {
  try {
    PartialFile(folder_ / "no" / "x", kGitSum, 6);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("HF_HUB_CACHE=DIR"), std::string::npos);
  }
  PartialFile full(blob(), kGitSum, 6);
  fill_disk_of(full.path());
  try {
    full.append("hel");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device; what was downloaded is kept"),
              std::string::npos)
        << error.what();
  }
}

// In a cache that users share, another user may have put anything under a leftover's name.
class PartialOfOthers : public Partial {
 protected:
  PartialOfOthers() { std::ofstream(mine()) << "mine"; }
  fs::path mine() const { return folder_ / "mine"; }

  void expect_new_file() const {
    EXPECT_EQ(find_partial(blob()), std::nullopt);
    PartialFile file(blob(), kSha256Sum, 6);
    EXPECT_EQ(file.size(), 0);
    file.append(kHello);
    file.finish();
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(blob())));
    EXPECT_EQ(read_text_file(blob(), "test"), kHello);
    EXPECT_EQ(read_text_file(mine(), "test"), "mine") << "nothing is appended to it";
  }
};

TEST_F(PartialOfOthers, AreNotUsedIfTheyAreLinks) {
  fs::create_symlink(mine(), leftover(this_host()));
  expect_new_file();
  fs::remove(leftover(this_host()));
  fs::create_hard_link(mine(), leftover(this_host()));
  expect_new_file();
}

TEST_F(PartialOfOthers, AreNotWaitedForIfTheyArePipes) {
  ASSERT_EQ(::mkfifo(leftover(this_host()).c_str(), 0666), 0);
  expect_new_file();
}

TEST_F(PartialOfOthers, AreNotContinued) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::ofstream(leftover(this_host())) << "hal";
  ASSERT_EQ(::chown(leftover(this_host()).c_str(), 12345, 12345), 0);
  expect_new_file();
}

}  // namespace
}  // namespace dpo::hub
