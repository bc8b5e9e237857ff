#include "commands/modern_keys.h"

#include <gtest/gtest.h>

#include "config/modern.h"

namespace dpo::commands {
namespace {

config::Resolved run_of(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"model=org/m", "data=a.jsonl", "loss=dpo"});
  return config::compose({more, {}, {}});
}

plan::Lengths lengths_of(std::int64_t pairs, double prompt, double response) {
  plan::Lengths lengths;
  lengths.basis = plan::LengthBasis::tokens;
  lengths.train_prompts = lengths.train_pairs = pairs;
  lengths.longest_prompt = prompt, lengths.longest_response = response;
  return lengths;
}

TEST(ModernKeys, NothingIsCutIfTheModelHasThePositions) {
  const config::RunConfig run = with_keys_of_data(run_of(), lengths_of(1000, 300, 200), 8192).values;
  EXPECT_EQ(run.max_prompt_length, 320);
  EXPECT_EQ(run.max_length, 320 + 256);
  const config::RunConfig small = with_keys_of_data(run_of(), lengths_of(1000, 300, 200), 512).values;
  EXPECT_EQ(small.max_length, 512);
  EXPECT_EQ(small.max_prompt_length, 256);
  plan::Lengths sampled = lengths_of(1000, 300, 200);
  sampled.basis = plan::LengthBasis::sample;
  EXPECT_GE(with_keys_of_data(run_of(), sampled, {}).values.max_length, 550);
  EXPECT_LE(with_keys_of_data(run_of(), lengths_of(1000, 1e6, 1e6), {}).values.max_length, 4096);
}

TEST(ModernKeys, TheBatchGrowsWithTheData) {
  const auto batch = [](std::int64_t pairs) {
    return with_keys_of_data(run_of(), lengths_of(pairs, 9, 9), {}).values.batch_size;
  };
  EXPECT_EQ(batch(5), 5);
  EXPECT_EQ(batch(200), 8);
  EXPECT_EQ(batch(2000), 16);
  EXPECT_EQ(batch(60000), 64);
}

TEST(ModernKeys, TheRestFollows) {
  const config::Resolved run = with_keys_of_data(run_of(), lengths_of(2000, 9, 9), {});
  EXPECT_EQ(run.values.warmup_steps, 12);  // of 125 updates
  EXPECT_EQ(run.values.eval_every, 16 * 16);
  EXPECT_NE(config::modern_note(run).find("; for this data: batch_size=16"), std::string::npos);
}

TEST(ModernKeys, GivenKeysStay) {
  const config::RunConfig run =
      with_keys_of_data(run_of({"batch_size=3", "max_length=100"}), lengths_of(2000, 300, 20), {}).values;
  EXPECT_EQ(run.batch_size, 3);
  EXPECT_EQ(run.max_length, 100);
  EXPECT_LT(run.max_prompt_length, 100);
  const config::Resolved original = with_keys_of_data(
      run_of({"exp_name=e", "defaults=original", "loss.beta=0.1"}), lengths_of(2000, 300, 20), {});
  EXPECT_EQ(original.values.batch_size, 4);
}

}  // namespace
}  // namespace dpo::commands
