#include "commands/data_lengths.h"

#include <fmt/format.h>

#include "plan/gather_inputs.h"
#include "unit/data/byte_tokenizer.h"

namespace dpo::commands {
namespace {

class DataLengths : public data::WithTokenizer {
 protected:
  DataLengths() {
    std::string lines;
    for (int i = 0; i < 300; ++i)
      lines +=
          fmt::format(R"({{"prompt": "{:04}", "chosen": "ab", "rejected": "{}", "topic": "t"}})"
                      "\n",
                      i, i % 2 ? "abcdef" : "ab");  // every second pair has equal responses and is dropped
    config_ = data::make_config();
    config_.datasets = {write("pairs.jsonl", lines).string()};
    config_.local_dirs = {folder_.string()};
    config_.model.tokenizer_name_or_path = (folder_ / "tokenizer").string();
    config_.eval_every = 100;
    config_.data.test_share = 0.1;
  }

  config::RunConfig config_;
};

TEST_F(DataLengths, AreCountedFromRowsAndASample) {
  const CountedData counted = count_data(config_);
  ASSERT_TRUE(counted.lengths);
  const plan::Lengths& lengths = *counted.lengths;
  EXPECT_EQ(lengths.basis, plan::LengthBasis::sample);
  EXPECT_EQ(lengths.train_pairs + lengths.test_pairs, 300);
  EXPECT_NEAR(static_cast<double>(lengths.test_pairs), 30, 15);
  EXPECT_EQ(lengths.longest_prompt, 4);
  EXPECT_EQ(lengths.longest_response, 7);  // with the end of text
  EXPECT_EQ(lengths.name, config_.datasets[0]);
  ASSERT_EQ(counted.notes.size(), 1u);  // once, though both splits were read
  EXPECT_NE(counted.notes[0].find("unused column: topic;"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(plan::folder_of_user(config_)));
}

TEST_F(DataLengths, ComeFromTheTokenCache) {
  data::TokenCache cache{plan::folder_of_user(config_) / "tokens"};
  const auto train = data::Examples::load(config_, data::Split::Train, *tokenizer_, cache);
  EXPECT_EQ(count_data(config_).lengths->basis,
            plan::LengthBasis::sample);  // the test split is not there yet
  const auto test = data::Examples::load(config_, data::Split::Test, *tokenizer_, cache);
  const plan::Lengths lengths = *count_data(config_).lengths;
  EXPECT_EQ(lengths.basis, plan::LengthBasis::tokens);
  EXPECT_EQ(lengths.train_pairs, train.size());
  EXPECT_EQ(lengths.test_pairs, test.size());
  EXPECT_EQ(lengths.train_pairs + lengths.test_pairs, 150);
  EXPECT_EQ(lengths.longest_response, 7);
}

TEST_F(DataLengths, OfLabelledResponses) {
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += fmt::format(R"({{"prompt": "{:04}", "completion": "abc", "label": {}}})"
                         "\n",
                         i, i % 4 ? "true" : "false");
  config_.datasets = {write("labels.jsonl", lines).string()};
  config_.loss.name = config::Loss::kto;
  config_.data.weights = {{config_.datasets[0], 2}};
  const auto check = [&](plan::LengthBasis basis) {
    const plan::Lengths lengths = *count_data(config_).lengths;
    EXPECT_EQ(lengths.basis, basis);
    EXPECT_EQ(lengths.train_pairs + lengths.test_pairs, 0);
    EXPECT_EQ(lengths.train_labels / 2 + lengths.test_labels, 100);
    EXPECT_NEAR(static_cast<double>(lengths.train_desirable),
                0.75 * static_cast<double>(lengths.train_labels), 10);
    EXPECT_EQ(lengths.scored, 1);
  };
  check(plan::LengthBasis::sample);
  data::TokenCache cache{plan::folder_of_user(config_) / "tokens"};
  for (const data::Split split : {data::Split::Train, data::Split::Test})
    data::Examples::load(config_, split, *tokenizer_, cache);
  check(plan::LengthBasis::tokens);
  config_.loss.name = config::Loss::dpo;  // said by the plan already, tokenized or not
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(data::problem_of([&] { count_data(config_); }).find("has labelled responses: use loss=kto"),
              std::string::npos);
    std::filesystem::remove_all(plan::folder_of_user(config_));
  }
}

TEST_F(DataLengths, FollowWeightsAndEvaluation) {
  config_.data.weights = {{config_.datasets[0], 2}};
  config_.eval_every.reset();
  config_.data.test_share = 0;
  const plan::Lengths lengths = *count_data(config_).lengths;
  EXPECT_EQ(lengths.train_pairs, 600);
  EXPECT_EQ(lengths.test_pairs, 0);
}

TEST_F(DataLengths, AreEstimatedFromBytesWithoutATokenizer) {
  config_.model.tokenizer_name_or_path = "no/tokenizer-here";
  const plan::Lengths lengths = *count_data(config_).lengths;
  EXPECT_EQ(lengths.basis, plan::LengthBasis::bytes);
  EXPECT_EQ(lengths.longest_prompt, 1);  // four bytes
  EXPECT_EQ(lengths.train_pairs + lengths.test_pairs, 300);
}

TEST_F(DataLengths, AreUnknownForDataNotOnThisMachine) {
  config_.plan.lengths = "hh";
  EXPECT_FALSE(count_data(config_).lengths);
  config_.plan.lengths.reset();
  config_.datasets = {"nobody/has-this"};
  EXPECT_FALSE(count_data(config_).lengths);
  config_.datasets = {write("bad.jsonl", "nonsense\n").string()};
  EXPECT_THROW(count_data(config_), UserError);
}

}  // namespace
}  // namespace dpo::commands
