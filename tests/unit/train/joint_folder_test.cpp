#include "train/joint_folder.h"

#include <barrier>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

// Ranks that are threads of this process.
struct Meeting {
  explicit Meeting(int ranks) : size(ranks), turn(ranks), given(static_cast<std::size_t>(ranks)) {}
  const int size;
  std::barrier<> turn;
  std::vector<at::Tensor> given;
};

class ThreadGroup : public comm::Group {
 public:
  ThreadGroup(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_.size; }
  void barrier() override { meeting_.turn.arrive_and_wait(); }
  comm::Pending broadcast(const at::Tensor& tensor, int root) override {
    give(tensor);
    tensor.copy_(meeting_.given[static_cast<std::size_t>(root)]);
    barrier();
    return {};
  }
  comm::Pending all_reduce(const at::Tensor& tensor, comm::Reduction) override {
    give(tensor);
    tensor.zero_();
    for (const at::Tensor& other : meeting_.given) tensor.add_(other);
    barrier();
    return {};
  }
  comm::Pending all_gather(const at::Tensor&, const at::Tensor&) override {
    throw std::logic_error("unused");
  }
  comm::Pending reduce_scatter(const at::Tensor&, const at::Tensor&) override {
    throw std::logic_error("unused");
  }
  std::shared_ptr<Group> split(int) override { throw std::logic_error("unused"); }

 private:
  void give(const at::Tensor& tensor) {
    meeting_.given[static_cast<std::size_t>(rank_)] = tensor.clone();
    barrier();
  }

  Meeting& meeting_;
  const int rank_;
};

class SharedFolder : public testing::Test {
 protected:
  SharedFolder() : folder_(fs::path(testing::TempDir()) / "dpo_shared_folder") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "here");
    fs::create_directories(folder_ / "there");
  }
  ~SharedFolder() override { fs::remove_all(folder_); }

  // What each rank is told: the word, or the error.
  std::vector<std::string> ask(const std::vector<std::string>& folders) {
    Meeting meeting(static_cast<int>(folders.size()));
    std::vector<std::string> answers(folders.size());
    std::vector<std::jthread> ranks;
    for (std::size_t i = 0; i < folders.size(); ++i)
      ranks.emplace_back([&, i] {
        ThreadGroup group(meeting, static_cast<int>(i));
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

TEST_F(SharedFolder, GivesAllRanksOneNewWord) {
  const auto first = ask({"here", "here", "here"}), second = ask({"here", "here", "here"});
  EXPECT_EQ(first, std::vector<std::string>(3, first[0]));
  EXPECT_EQ(second, std::vector<std::string>(3, second[0]));
  EXPECT_NE(first[0], second[0]);
  EXPECT_TRUE(fs::is_empty(folder_ / "here"));
}

TEST_F(SharedFolder, IsMissedOnEveryRank) {
  for (const std::string& answer : ask({"here", "here", "there"}))
    EXPECT_NE(answer.find("1 of 3 ranks do not see what rank 0 writes there"), std::string::npos) << answer;
  for (const std::string& answer : ask({"nowhere", "here"}))
    EXPECT_NE(answer.find("must be on a file system that all machines share"), std::string::npos) << answer;
}

TEST_F(SharedFolder, OfOneRankIsShared) {
  EXPECT_FALSE(check_shared(folder_ / "here", *comm::single()).empty());
}

}  // namespace
}  // namespace dpo::train
