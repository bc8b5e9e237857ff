#include "train/score_table.h"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/formats/safetensors.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

// Three examples of one prompt, which all have the first response.
class ScoreTables : public testing::Test {
 protected:
  data::Forest forest() const {
    const std::vector<data::Example> batch{{prompt_, {a_, b_}}, {prompt_, {a_, c_}}, {prompt_, {c_, a_, b_}}};
    return data::make_forest(batch);
  }
  ScoreTables() { fs::create_directories(folder()); }
  ~ScoreTables() override { fs::remove_all(folder()); }

  // Returns a separate folder, because writing makes a folder private.
  fs::path folder() const { return fs::path(testing::TempDir()) / fmt::format("scores-{}", ::getpid()); }
  fs::path file() const { return folder() / "scores.safetensors"; }

  const std::vector<std::int64_t> responses_{2, 2, 3, 2, 3};
  const std::vector<std::uint32_t> indices_{3, 1, 4};  // of the batch's examples in the split
  const ScoreTable::Key key_{{"weights", "w"}, {"precision", "Float"}};

 private:
  std::vector<data::Token> prompt_{1, 2}, a_{3}, b_{4, 5}, c_{6};
};

TEST_F(ScoreTables, ReturnTheirScoresInAnyOrder) {
  ScoreTable table(responses_);
  EXPECT_FALSE(table.knows(1));
  const std::vector<double> scores{-1, -2, -3};  // of the forest's responses a, b, c
  table.set(forest(), indices_, scores);
  EXPECT_TRUE(table.knows(1) && table.knows(3) && table.knows(4));
  EXPECT_FALSE(table.knows(0) || table.knows(2));
  EXPECT_EQ(table.of(forest(), indices_), scores);
  EXPECT_TRUE(std::isnan(table.of(forest(), std::vector<std::uint32_t>{3, 0, 2})[2]));
}

TEST_F(ScoreTables, AreSavedWithTheirKey) {
  ScoreTable table(responses_), again(responses_);
  std::string why;
  EXPECT_FALSE(again.read(folder() / "nothing.safetensors", key_, why));
  EXPECT_EQ(why, "");
  const std::vector<double> scores{-1, -2, -3};
  table.set(forest(), indices_, scores);
  table.write(file(), key_, "train of hh");
  EXPECT_TRUE(again.read(file(), key_, why));
  EXPECT_EQ(why, "");
  EXPECT_EQ(again.of(forest(), indices_), scores);
  EXPECT_FALSE(again.knows(0));
  EXPECT_FALSE(again.read(file(), {{"weights", "others"}, {"precision", "Float"}}, why));
  EXPECT_EQ(why, "of another run");
  EXPECT_FALSE(ScoreTable(std::vector<std::int64_t>{2, 2, 2, 3, 3}).read(file(), key_, why));
  EXPECT_FALSE(ScoreTable(std::vector<std::int64_t>{2}).read(file(), key_, why));
}

TEST_F(ScoreTables, KeepTheirScoresWhenOthersAreAdded) {
  ScoreTable table(responses_), other(responses_);
  table.set(forest(), indices_, std::vector<double>{-1, -2, -3});
  other.set(forest(), indices_, std::vector<double>{-5, -6, -7});
  other.set(forest(), std::vector<std::uint32_t>{0, 1, 2}, std::vector<double>{-8, -9, -10});
  table.add(other);
  EXPECT_EQ(table.of(forest(), indices_), (std::vector<double>{-1, -2, -3}));
  EXPECT_TRUE(table.knows(0));
  ScoreTable sent(responses_);
  sent.set_bytes(table.bytes());
  EXPECT_EQ(sent.bytes(), table.bytes());
}

// Changes each byte of the file, so that also slightly wrong scores are found.
TEST_F(ScoreTables, OfADamagedFileAreNotRead) {
  ScoreTable table(responses_);
  table.set(forest(), indices_, std::vector<double>{-1, -2, -3});
  table.write(file(), key_, "train of hh");
  std::ifstream in(file(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x01);
    std::ofstream(file(), std::ios::binary) << bad;
    ScoreTable again(responses_);
    std::string why;
    if (again.read(file(), key_, why))  // a blank of the header was changed
      EXPECT_EQ(again.bytes(), table.bytes()) << "byte " << at;
    else
      EXPECT_NE(why, "") << "byte " << at;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
    std::ofstream(file(), std::ios::binary) << good.substr(0, size);
    std::string why;
    EXPECT_FALSE(ScoreTable(responses_).read(file(), key_, why));
    EXPECT_EQ(why, "damaged");
  }
}

// An earlier version wrote only these three.
TEST_F(ScoreTables, WithoutAChecksumAreNotRead) {
  const std::string key = R"({"precision":"Float","weights":"w"})";
  const std::vector<double> numbers(12);
  const std::vector<std::int64_t> starts{0, 2, 4, 7, 9, 12};
  const auto bytes_of = [](const auto& values) {
    return [&values] { return std::as_bytes(std::span(values)); };
  };
  checkpoint::write_safetensors(
      file(), {{"key", checkpoint::Dtype::U8, {static_cast<std::int64_t>(key.size())}, bytes_of(key)},
               {"scores", checkpoint::Dtype::F64, {12}, bytes_of(numbers)},
               {"starts", checkpoint::Dtype::I64, {6}, bytes_of(starts)}});
  std::string why;
  EXPECT_FALSE(ScoreTable(responses_).read(file(), key_, why));
  EXPECT_EQ(why, "damaged");
}

}  // namespace
}  // namespace dpo::train
