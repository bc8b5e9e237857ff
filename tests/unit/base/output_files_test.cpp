#include "base/output_files.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files.h"
#include "unit/full_disk.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

template <class Work>
std::string problem_of(const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "done";
}

TEST(AtomicFile, MadeByManyThreadsHasTheUsualPermissions) {
  const fs::path folder = fs::path(testing::TempDir()) / "dpo_atomic_file_test";
  fs::create_directories(folder);
  const mode_t before = umask(027);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2000; ++i) AtomicFile file(folder / std::to_string(thread));
    });
  threads.clear();
  AtomicFile(folder / "file").commit();
  EXPECT_EQ(umask(before), 027u) << "a thread restored what another had set for a moment";
  EXPECT_EQ(static_cast<unsigned>(fs::status(folder / "file").permissions()), 0640u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "what was not committed is gone";
  fs::remove_all(folder);
}

TEST(CheckReplaceable, AllowsOnlyWhatThisProgramWrote) {
  const fs::path folder = fs::path(testing::TempDir()) / "dpo_replaceable_test";
  fs::create_directories(folder);
  const fs::path file = folder / "file";
  const auto check = [&] { return problem_of([&] { check_replaceable(file, "made by us"); }); };
  const std::string refusal = file.string() + " exists; choose another path, or remove it";
  EXPECT_EQ(check(), "done") << "it does not exist";
  write_file(file, "");
  EXPECT_EQ(check(), "done") << "nothing is lost";
  write_file(file, "# numbers, made by us\n");
  EXPECT_EQ(check(), "done");
  write_file(file, "{\"prompt\": \"p\"}\n");
  EXPECT_EQ(check(), refusal);
  write_file(file, std::string(1 << 16, 'x') + "made by us");
  EXPECT_EQ(check(), refusal) << "not at its beginning";
  fs::remove(file);
  fs::create_symlink("missing", file);
  EXPECT_EQ(check(), refusal);
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_EQ(check(), file.string() + " is a folder, expected a file");
  fs::remove_all(folder);
}

TEST(SharedFile, IsWrittenBySeveralAtPlacesOfTheirOwn) {
  const auto path = fs::path(testing::TempDir()) / "dpo_shared_file_test";
  fs::remove(path);
  SharedFile first(path, 8), second(path);
  second.write(5, "fg");
  first.write(0, "ab");
  first.write(3, "de");
  first.finish();
  second.finish();
  EXPECT_EQ(read_text_file(path, "test"), std::string("ab\0defg\0", 8));
  EXPECT_NE(problem_of([&] { SharedFile(path, 8); }).find("failed: File exists"), std::string::npos);
  fs::remove(path);
}

TEST(SharedFile, NamesWhatFails) {
  EXPECT_EQ(problem_of([] { SharedFile("/no/such/file"); }),
            "opening /no/such/file failed: No such file or directory");
  const fs::path file = fs::path(testing::TempDir()) / "dpo_shared_file_test";
  fs::remove(file);
  {
    SharedFile full(file, 1);
    fill_disk_of(file);
    EXPECT_EQ(problem_of([&] { full.write(0, "x"); }),
              "writing " + file.string() + " failed: No space left on device");
  }
  fs::remove(file);
}

}  // namespace
}  // namespace dpo
