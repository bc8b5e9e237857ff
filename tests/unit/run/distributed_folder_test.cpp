#include "run/distributed_folder.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/comm/thread_group.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

class SharedFolder : public testing::Test {
 protected:
  SharedFolder() : folder_(fs::path(testing::TempDir()) / "dpo_shared_folder") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "here");
    fs::create_directories(folder_ / "there");
  }
  ~SharedFolder() override { fs::remove_all(folder_); }

  // Returns the result of each rank: the launch id or the error.
  std::vector<std::string> ask(const std::vector<std::string>& folders) {
    comm::ThreadWorld world(static_cast<int>(folders.size()));
    std::vector<std::string> answers(folders.size());
    std::vector<std::jthread> ranks;
    for (std::size_t i = 0; i < folders.size(); ++i)
      ranks.emplace_back([&, i] {
        comm::ThreadGroup group(world, static_cast<int>(i));
        try {
          answers[i] = check_shared(folder_ / folders[i], group);
        } catch (const UserError& error) {
          answers[i] = error.what();
        }
      });
    ranks.clear();
    return answers;
  }

  fs::path folder_;
};

TEST_F(SharedFolder, GivesAllRanksOneNewId) {
  const auto first = ask({"here", "here", "here"}), second = ask({"here", "here", "here"});
  EXPECT_EQ(first, std::vector<std::string>(3, first[0]));
  EXPECT_EQ(second, std::vector<std::string>(3, second[0]));
  EXPECT_NE(first[0], second[0]);
  EXPECT_TRUE(fs::is_empty(folder_ / "here"));
}

TEST_F(SharedFolder, ThatIsMissingFailsOnEveryRank) {
  for (const std::string& answer : ask({"here", "here", "there"}))
    EXPECT_NE(answer.find("1 of 3 ranks do not see what rank 0 writes there"), std::string::npos) << answer;
  for (const std::string& answer : ask({"nowhere", "here"}))
    EXPECT_NE(answer.find("must be on a file system that all machines share"), std::string::npos) << answer;
}

TEST_F(SharedFolder, OfOneRankIsShared) {
  EXPECT_FALSE(check_shared(folder_ / "here", *comm::single()).empty());
}

}  // namespace
}  // namespace dpo::run
