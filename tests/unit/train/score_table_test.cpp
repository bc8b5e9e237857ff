#include "train/score_table.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

// Three examples of one prompt; the first response is in all of them.
class ScoreTables : public testing::Test {
 protected:
  data::Forest forest() const {
    const std::vector<data::Example> batch{{prompt_, {a_, b_}}, {prompt_, {a_, c_}}, {prompt_, {c_, a_, b_}}};
    return data::make_forest(batch);
  }
  fs::path file() const { return fs::path(testing::TempDir()) / "scores.safetensors"; }

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
  const std::vector<double> scores{-1, -2, -3};
  table.set(forest(), indices_, scores);
  table.write(file(), key_);
  again.read(file(), key_);
  EXPECT_EQ(again.of(forest(), indices_), scores);
  EXPECT_FALSE(again.knows(0));
  EXPECT_THROW(again.read(file(), {{"weights", "others"}, {"precision", "Float"}}), UserError);
  EXPECT_THROW(ScoreTable(std::vector<std::int64_t>{2, 2, 2, 3, 3}).read(file(), key_), UserError);
  EXPECT_THROW(ScoreTable(std::vector<std::int64_t>{2}).read(file(), key_), UserError);
}

TEST_F(ScoreTables, OfADamagedFileAreRefused) {
  const std::string key = R"({"weights": 5, "precision": "Float"})";
  const std::vector<double> numbers(12);
  const auto bytes_of = [](const auto& values) {
    return [&values] { return std::as_bytes(std::span(values)); };
  };
  const std::vector<std::int64_t> starts{0, 2, 4, 7, 9, 12};
  checkpoint::write_safetensors(
      file(), {{"key", checkpoint::Dtype::U8, {static_cast<std::int64_t>(key.size())}, bytes_of(key)},
               {"scores", checkpoint::Dtype::F64, {12}, bytes_of(numbers)},
               {"starts", checkpoint::Dtype::I64, {6}, bytes_of(starts)}});
  EXPECT_THROW(ScoreTable(responses_).read(file(), key_), UserError) << "a key that is not a string";
  checkpoint::write_safetensors(
      file(), {{"key", checkpoint::Dtype::U8, {2}, [] { return std::as_bytes(std::span("{}", 2)); }},
               {"scores", checkpoint::Dtype::I64, {12}, bytes_of(numbers)},
               {"starts", checkpoint::Dtype::I64, {6}, bytes_of(starts)}});
  EXPECT_THROW(ScoreTable(responses_).read(file(), {}), UserError) << "scores of another dtype";
}

}  // namespace
}  // namespace dpo::train
