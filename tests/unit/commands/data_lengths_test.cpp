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
  ASSERT_EQ(counted.notes.size(), 1u);  // once, although both splits were read
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
  config_.loss.name = config::Loss::dpo;  // the plan already reports it, tokenized or not
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

void expect_cuts(const CountedData& counted, const config::RunConfig& run, double prompts, double responses,
                 double turns) {
  const plan::Cuts& cuts = counted.lengths->cuts;
  EXPECT_EQ(cuts.max_length, run.max_length);
  ASSERT_EQ(cuts.sources.size(), 1u);
  const plan::CutExamples& source = cuts.sources[0];
  ASSERT_GT(source.examples, 0);
  const auto share = [&](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(source.examples);
  };
  EXPECT_NEAR(share(source.prompts), prompts, 0.05);
  EXPECT_NEAR(share(source.responses), responses, 0.05);
  EXPECT_NEAR(share(source.turns), turns, 0.05);
}

TEST_F(DataLengths, WhatIsCutDoesNotDependOnTheTokenCache) {
  config_.max_length = 8;
  config_.max_prompt_length = 3;
  config_.data.equal_responses = config::BadExamplePolicy::keep;
  data::TokenCache cache{plan::folder_of_user(config_) / "tokens"};
  for (const plan::LengthBasis basis : {plan::LengthBasis::sample, plan::LengthBasis::tokens}) {
    const CountedData counted = count_data(config_);
    EXPECT_EQ(counted.lengths->basis, basis);
    expect_cuts(counted, config_, 0.5, 0.5, 0);  // prompts of 4, and every second response of 7
    for (const data::Split split : {data::Split::Train, data::Split::Test})
      data::Examples::load(config_, split, *tokenizer_, cache);
  }
}

TEST_F(DataLengths, WhatIsCutIsCountedAgainForOtherLimits) {
  for (int i = 0; i < 2; ++i) {
    CountedData counted = count_data(config_);
    expect_cuts(counted, config_, 0, 0, 0);
    config::RunConfig shorter = config_;
    shorter.max_length = 10;
    shorter.max_prompt_length = 3;
    shorter.data.equal_responses = config::BadExamplePolicy::keep;
    count_cuts(counted, shorter);
    expect_cuts(counted, shorter, 0.5, 0, 0);
    data::TokenCache cache{plan::folder_of_user(config_) / "tokens"};
    for (const data::Split split : {data::Split::Train, data::Split::Test})
      data::Examples::load(config_, split, *tokenizer_, cache);
  }
}

TEST_F(DataLengths, TurnsThatAreLostAreCountedToo) {
  write("tokenizer/special_tokens_map.json", R"({"eos_token": "<|endoftext|>"})");
  tokenizer_.emplace(text::Tokenizer::load(folder_ / "tokenizer"));
  std::string lines;
  for (int i = 0; i < 100; ++i) {
    const std::string first =
        i % 4 == 0 ? ""
                   : R"({"role": "user", "content": "one two three four five six seven eight nine ten"}, )"
                     R"({"role": "assistant", "content": "four"}, )";
    lines += fmt::format(R"({{"prompt": [{}{{"role": "user", "content": "{:03}"}}], )"
                         R"("chosen": [{{"role": "assistant", "content": "a"}}], )"
                         R"("rejected": [{{"role": "assistant", "content": "b"}}]}})"
                         "\n",
                         first, i);
  }
  config_.datasets = {write("chats.jsonl", lines).string()};
  config_.chat_template = "plain";
  config_.max_length = 40;
  config_.max_prompt_length = 30;
  data::TokenCache cache{plan::folder_of_user(config_) / "tokens"};
  for (const plan::LengthBasis basis : {plan::LengthBasis::sample, plan::LengthBasis::tokens}) {
    const CountedData counted = count_data(config_);
    EXPECT_EQ(counted.lengths->basis, basis);
    expect_cuts(counted, config_, 0, 0, 0.75);
    for (const data::Split split : {data::Split::Train, data::Split::Test})
      data::Examples::load(config_, split, *tokenizer_, cache);
  }
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
