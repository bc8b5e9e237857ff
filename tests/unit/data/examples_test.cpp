#include "data/examples.h"

#include <numeric>
#include <set>

#include <fmt/format.h>

#include "config/evaluation.h"
#include "data/statistics.h"
#include "unit/data/byte_tokenizer.h"

namespace dpo::data {
namespace {

using Tokens = std::vector<Token>;

Tokens numbered(std::size_t count, Token first = 0) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Returns "prompt|chosen|rejected", with $ for the end of the text.
std::string shown(const Example& example) {
  std::string out;
  const auto add = [&](std::span<const Token> tokens) {
    for (const Token token : tokens) out += token == kEos ? '$' : static_cast<char>(token);
  };
  add(example.prompt);
  for (const auto& response : example.responses) {
    out += '|';
    add(response);
  }
  return out;
}

struct TruncationCase {
  std::size_t prompt, chosen, rejected;
  std::int64_t max_length, max_prompt_length;
  std::size_t wanted_prompt, wanted_chosen, wanted_rejected;
};

TEST(Truncation, CutsThePromptThenTheResponses) {
  const TruncationCase cases[] = {
      {10, 5, 5, 15, 4, 10, 5, 5},   // exactly full: nothing is cut
      {10, 5, 6, 15, 4, 4, 5, 6},    // the longer response decides
      {10, 6, 5, 15, 12, 10, 3, 3},  // a prompt within its limit stays, and the responses are cut
      {3, 20, 2, 15, 4, 3, 11, 2},   // to max_length - max_prompt_length, though the prompt is shorter
      {10, 20, 30, 15, 4, 4, 11, 11}, {10, 20, 30, 15, 15, 10, 0, 0},  // no room
      {10, 20, 30, 15, 20, 10, 0, 0}, {0, 20, 1, 15, 4, 0, 11, 1},
  };
  for (const TruncationCase& c : cases) {
    const Tokens prompt = numbered(c.prompt);
    const Tokens chosen = numbered(c.chosen, 100);
    const Tokens rejected = numbered(c.rejected, 200);
    for (const auto mode : {data::Truncation::KeepStart, data::Truncation::KeepEnd}) {
      const Example example = truncate(prompt, {chosen, rejected}, mode, c.max_length, c.max_prompt_length);
      ASSERT_EQ(example.prompt.size(), c.wanted_prompt);
      ASSERT_EQ(example.responses[0].size(), c.wanted_chosen);
      ASSERT_EQ(example.responses[1].size(), c.wanted_rejected);
      const bool end = mode == data::Truncation::KeepEnd;
      if (c.wanted_prompt > 0) {
        EXPECT_EQ(example.prompt.front(), static_cast<Token>(end ? c.prompt - c.wanted_prompt : 0));
      }
      if (c.wanted_chosen > 0) {
        EXPECT_EQ(example.responses[0].front(), 100);
      }
    }
  }
}

class Policies : public WithTokenizer {
 protected:
  Policies() {
    add("good", "yes", "no");
    add("eos", "a<|endoftext|>", "b");
    add("e<|endoftext|>os", "a", "b");
    add("empty", "", "b");
    add("equal", "same", "same");
    add("cut equal", "same start, one end", "same start, other end");
    add("a prompt that is much too long for the limit", "a", "b");
    config_.max_length = 30;
    config_.max_prompt_length = 20;
  }

  void add(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
    lines_ += fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"{}\", \"rejected\": \"{}\"}}\n", prompt,
                          chosen, rejected);
  }

  Examples load(Split split = Split::Train) {
    config_.datasets = {write("d/train.jsonl", lines_).parent_path().string()};
    write("d/test.jsonl", lines_);
    TokenCache cache{folder_ / "tokens"};
    return Examples::load(config_, split, *tokenizer_, cache);
  }

  // Returns all examples, and the numbers of dropped ones in the order of DropReason.
  std::string all() {
    const Examples examples = load();
    std::string out;
    for (std::uint32_t i = 0; i < examples.size(); ++i) out += shown(examples.at(i)) + "\n";
    for (const std::int64_t count : examples.counts()[0].dropped) out += fmt::format("{} ", count);
    return out;
  }

  std::string lines_;
  config::RunConfig config_ = make_config();
};

TEST_F(Policies, DropAndCountByDefault) {
  EXPECT_EQ(all(),
            "good|yes$|no$\n"
            "a prompt that is muc|a$|b$\n"
            "2 1 2 0 ");
}

TEST_F(Policies, KeepWhatTheyAreToldTo) {
  config_.data.eos_in_text = config_.data.empty_response = config_.data.equal_responses =
      config::BadExamplePolicy::keep;
  EXPECT_EQ(all(),
            "good|yes$|no$\n"
            "eos|a$$|b$\n"
            "e$os|a$|b$\n"
            "empty|$|b$\n"
            "equal|same$|same$\n"
            "cut equal|same start|same start\n"
            "a prompt that is muc|a$|b$\n"
            "0 0 0 0 ");
}

TEST_F(Policies, CountPromptsThatLeaveNoRoom) {
  config_.max_prompt_length = 30;
  EXPECT_EQ(all(), "good|yes$|no$\n2 1 1 2 ");
  config_.data.no_room = config::BadExamplePolicy::keep;
  config_.data.equal_responses = config::BadExamplePolicy::keep;
  EXPECT_NE(all().find("a prompt that is much too long||\n"), std::string::npos);
}

TEST_F(Policies, FailWhenTheyAreToldTo) {
  config_.data.empty_response = config::BadExamplePolicy::fail;
  const std::string problem = problem_of([&] { all(); });
  EXPECT_NE(problem.find("data.empty_response=fail: "), std::string::npos) << problem;
  EXPECT_NE(problem.find("prompt 3 "), std::string::npos) << problem;
}

TEST_F(Policies, LookAtTheTargetAloneForSft) {
  config_.loss.name = config::Loss::sft;
  EXPECT_EQ(all(),
            "good|yes$\n"
            "equal|same$\n"
            "cut equal|same start, one end$\n"
            "a prompt that is muc|a$\n"
            "2 1 0 0 ");
}

TEST_F(Policies, RankingsAreExamplesWhereTheLossWantsThem) {
  lines_ +=
      R"({"prompt": "list", "responses": ["c", "a", "b", "a too"], "scores": [1, 3, 2, 3], "weight": 0.5})"
      "\n"
      R"({"prompt": "list", "responses": ["same start, then one end", "x", "same start, then another end"],)"
      R"( "scores": [3, 2, 1]})"
      "\n"
      R"({"prompt": "ties", "responses": ["a", "b"], "scores": [1, 1]})"
      "\n";
  config_.loss.name = config::Loss::plackett_luce;
  // A pair is a ranking of two. A response with the score of another is skipped. Two responses that are equal
  // after truncation are dropped.
  EXPECT_EQ(all(),
            "good|yes$|no$\n"
            "a prompt that is muc|a$|b$\n"
            "list|a$|b$|c$\n"
            "2 1 3 0 ");
  const Examples examples = load();
  EXPECT_EQ(examples.at(0).weight, 1);
  EXPECT_EQ(examples.at(2).weight, 0.5);
  EXPECT_EQ(examples.counts()[0].rankings, 9);
  EXPECT_EQ(examples.counts()[0].ranked, 7 * 2 + 3 + 3);
  EXPECT_EQ(examples.counts()[0].longest_ranking, 3);
  EXPECT_EQ(examples.counts()[0].weighted, 1);
  EXPECT_EQ(examples.starts().size(), 10u);
  const Examples test = load(Split::Test);
  EXPECT_NE(lengths_yaml(examples, measure_lengths(examples), &test)
                .find("train: {prompts: 9, pairs: 15, rankings: 9, ranked: 20}"),
            std::string::npos);
  config_.data.equal_responses = config::BadExamplePolicy::fail;
  EXPECT_NE(problem_of([&] { load(); }).find("prompt 4 "), std::string::npos);
}

TEST_F(Policies, PairsCarryTheirWeightAndMargin) {
  lines_ = R"({"prompt": "p", "chosen": "a", "rejected": "b", "weight": 2, "margin": 0.25})"
           "\n"
           R"({"prompt": "q", "chosen": "a", "rejected": "b"})"
           "\n";
  const Examples examples = load();
  EXPECT_EQ(examples.at(0).weight, 2);
  EXPECT_EQ(examples.at(0).margin, 0.25);
  EXPECT_EQ(examples.at(1).weight, 1);
  EXPECT_EQ(examples.at(1).margin, 0);
  EXPECT_EQ(examples.counts()[0].weighted, 1);
  EXPECT_EQ(examples.counts()[0].with_margin, 1);
  EXPECT_EQ(examples.at(0).tail_weight, 1);
  config_.loss.length_alpha = 0.5;
  EXPECT_EQ(load().at(0).tail_weight, 0.5f);
  EXPECT_EQ(load().at(0).full_tokens, 2u);
  config_.loss.name = config::Loss::sft;
  EXPECT_EQ(load().at(0).tail_weight, 1);
  EXPECT_EQ(load().at(0).weight, 1);
  EXPECT_EQ(load().counts()[0].with_margin, 0);
}

// A pair, and labelled responses to the same prompt, each of which is an example.
TEST_F(Policies, LabelledResponsesAreExamplesOfUnpairedLosses) {
  lines_ = R"({"prompt": "p", "chosen": "a", "rejected": "b", "weight": 3})"
           "\n"
           R"({"prompt": "p", "completion": "good", "label": true})"
           "\n"
           R"({"prompt": "p", "completion": "bad", "label": false, "weight": 0.5})"
           "\n"
           R"({"prompt": "q", "completion": "", "label": 1})"
           "\n";
  config_.loss.name = config::Loss::kto;
  EXPECT_EQ(all(), "p|a$|b$\np|good$\np|bad$\n0 1 0 0 ");
  const Examples examples = load();
  EXPECT_EQ(examples.at(0).weight, 3);
  EXPECT_TRUE(examples.at(0).desirable);
  EXPECT_TRUE(examples.at(1).desirable);
  EXPECT_FALSE(examples.at(2).desirable);
  EXPECT_EQ(examples.at(2).weight, 0.5);
  EXPECT_EQ(examples.label_of(examples.list().origins[0]), nullptr);
  ASSERT_NE(examples.label_of(examples.list().origins[2]), nullptr);
  const SourceCounts& counts = examples.counts()[0];
  EXPECT_EQ(counts.pairs, 1);
  EXPECT_EQ(counts.labels, 3);
  EXPECT_EQ(counts.desirable, 2);
  EXPECT_EQ(counts.prompts, 4);
  EXPECT_EQ(counts.weighted, 2);
  const Examples test = load(Split::Test);
  EXPECT_NE(lengths_yaml(examples, measure_lengths(examples), &test)
                .find("ranked: 2, labels: 3, desirable: 2}\ntest: {prompts: 4, pairs: 1, labels: 3}"),
            std::string::npos);
  config_.loss.name = config::Loss::dpo;
  EXPECT_EQ(all(), "p|a$|b$\n0 0 0 0 ");
  config_.loss.name = config::Loss::sft;  // imitates only good responses
  EXPECT_EQ(all(), "p|a$\np|good$\n0 1 0 0 ");
}

TEST_F(Policies, LabelsAreInTheDigest) {
  config_.loss.name = config::Loss::kto;
  const auto digest = [&](const char* label) {
    lines_ = fmt::format(R"({{"prompt": "p", "completion": "a", "label": {}}})"
                         "\n",
                         label);
    return digest_of(load());
  };
  EXPECT_EQ(digest("true"), digest("1"));
  EXPECT_NE(digest("true"), digest("false"));
}

TEST_F(Policies, ALossRefusesRowsOfAnotherForm) {
  const auto problem = [&](const char* line, config::Loss loss) {
    lines_ = std::string(line) + "\n";
    config_.loss.name = loss;
    return problem_of([&] { load(); });
  };
  const char* const labelled = R"({"prompt": "p", "completion": "a", "label": false})";
  const char* const completion = R"({"prompt": "p", "completion": "a"})";
  const char* const text = R"({"text": "a b c"})";
  const char* const tied = R"({"prompt": "p", "responses": ["a", "b"], "scores": [1, 1]})";
  const auto has = [](const std::string& all, const char* part) {
    return all.find(part) != std::string::npos;
  };
  EXPECT_TRUE(
      has(problem(labelled, config::Loss::dpo), "datasets: loss=dpo needs pairs (chosen and rejected); '"));
  EXPECT_TRUE(has(problem(labelled, config::Loss::simpo), "/d' has labelled responses: use loss=kto"));
  EXPECT_TRUE(has(problem(labelled, config::Loss::sft), "has only bad ones (label: false)"));
  EXPECT_EQ(problem(labelled, config::Loss::kto), "");
  for (const char* const line : {completion, text}) {
    EXPECT_TRUE(
        has(problem(line, config::Loss::dpo), "has responses without a rejected one: use loss=sft, or"));
    EXPECT_TRUE(has(problem(line, config::Loss::plackett_luce), "use loss=sft"));
    EXPECT_TRUE(has(problem(line, config::Loss::kto), "has responses without a label: use loss=sft"));
    EXPECT_EQ(problem(line, config::Loss::sft), "");
  }
  EXPECT_EQ(problem(tied, config::Loss::dpo), "");
}

TEST_F(Policies, ATextHasNoPrompt) {
  lines_ = R"({"text": "abc"})"
           "\n"
           R"({"text": "abc"})"
           "\n"
           R"({"text": "def"})"
           "\n";
  config_.loss.name = config::Loss::sft;
  EXPECT_EQ(all(), "|abc$\n|abc$\n|def$\n0 0 0 0 ");
}

// Runs of other models and with other limits are evaluated on the same examples.
TEST_F(Policies, HaveADigestOfTheirTexts) {
  lines_.clear();
  for (const char* prompt : {"one", "two", "three"}) add(prompt, "a", "b");
  const auto digest = [&](const std::vector<std::uint32_t>& indices) {
    return digest_of_texts(load(), indices);
  };
  const std::string whole = digest({0, 1, 2});
  EXPECT_EQ(whole, digest({2, 0, 1}));
  EXPECT_NE(whole, digest({0, 1}));
  EXPECT_NE(digest({0, 1}), digest({0, 2}));
  config_.max_length = 4;
  config_.max_prompt_length = 2;
  EXPECT_EQ(whole, digest({0, 1, 2}));
  lines_.clear();
  for (const char* prompt : {"one", "two", "three"}) add(prompt, "a", "c");
  EXPECT_NE(whole, digest({0, 1, 2}));
}

TEST_F(Policies, CountPromptsWithoutExamples) {
  const Examples examples = load();
  EXPECT_EQ(examples.starts().size(), 8u);  // seven prompts, two with examples
  EXPECT_EQ(examples.starts().back(), 2u);
}

TEST_F(Policies, CountWhatIsCut) {
  const Examples examples = load();
  EXPECT_EQ(examples.counts()[0].truncated_prompts, 1);
  EXPECT_EQ(examples.counts()[0].truncated_responses, 0);
  EXPECT_EQ(examples.counts()[0].pairs, 7);
  EXPECT_EQ(examples.counts()[0].examples, 2);
}

TEST_F(Policies, WeightsRepeatOrThinPromptsOfTrainingOnly) {
  lines_.clear();
  for (int i = 0; i < 10; ++i) add(fmt::format("p{}", i), "a", "b");
  const auto count = [&](double weight, Split split) {
    config_.datasets = {(folder_ / "d").string()};
    config_.data.weights = {{config_.datasets[0], weight}};
    return load(split).size();
  };
  EXPECT_EQ(count(2, Split::Train), 20u);
  EXPECT_EQ(count(0.5, Split::Train), 5u);
  EXPECT_EQ(count(1.5, Split::Train), 15u);
  EXPECT_EQ(count(0, Split::Train), 0u);
  EXPECT_EQ(count(2, Split::Test), 10u);
}

TEST_F(Policies, OrdersNeedABatch) {
  const Examples examples = load();
  config_.batch_size = 3;
  EXPECT_NE(problem_of([&] {
              training_order(examples.list(), config_);
            }).find("batch_size=3: the train split has only 2"),
            std::string::npos);
  EXPECT_NE(problem_of([&] { evaluation_order({}, config_); }).find("the test split has no examples"),
            std::string::npos);
}

TEST_F(Policies, AnEvaluationTakesWhatThereIs) {
  const Examples examples = load();
  config_.eval_batch_size = 16;
  config_.n_eval_examples = 256;
  ExampleOrder order = evaluation_order(examples.list(), config_);
  EXPECT_EQ(order.next()->size(), 2u);
  EXPECT_FALSE(order.next());
  const config::EvaluationSize size = config::evaluation_size(config_, examples.size());
  EXPECT_EQ(size.batch, 2);
  EXPECT_EQ(size.examples, 2);
  // 256 is only the default, and the files have their own test split.
  EXPECT_EQ(size.note, "the test split has only 2 examples: an evaluation uses each of them once");
  EXPECT_EQ(evaluation_note(examples, config_), size.note);
  config_.n_eval_examples = 100;
  EXPECT_EQ(evaluation_note(examples, config_),
            "the test split has only 2 examples, fewer than n_eval_examples=100: an evaluation uses each of "
            "them once");
  config_.n_eval_examples = 2;
  EXPECT_EQ(config::evaluation_size(config_, 13).note, "");
  EXPECT_EQ(config::evaluation_size(config_, 13).batch, 2);
}

// The original would use them repeatedly, as if there were more of them.
TEST_F(Policies, AnEvaluationTakesNoneTwice) {
  struct Case {
    std::int64_t batch, wanted, count;  // in the test split
  };
  std::vector<Case> cases = {{3, 10, 10},   {3, 250, 1000}, {2, 3, 3},      {8, 20, 20},   {8, 20, 21},
                             {8, 20, 1000}, {16, 303, 303}, {16, 303, 310}, {16, 10, 1000}};
  for (const std::int64_t count : {1, 16, 17, 100, 255, 256, 257, 1000}) cases.push_back({16, 256, count});
  for (const auto& [batch_size, wanted, count] : cases) {
    config_.eval_batch_size = batch_size;
    config_.n_eval_examples = wanted;
    ExampleList list;
    list.origins.resize(static_cast<std::size_t>(count));
    list.starts.resize(static_cast<std::size_t>(count) + 1);
    std::iota(list.starts.begin(), list.starts.end(), 0u);
    ExampleOrder order = evaluation_order(list, config_);
    std::set<std::uint32_t> seen;
    std::size_t all = 0;
    const config::EvaluationSize size = config::evaluation_size(config_, count);
    while (const auto batch = order.next()) {
      EXPECT_LE(size.batch, batch_size);
      EXPECT_LE(std::ssize(*batch), size.batch);
      EXPECT_GE(std::ssize(*batch), size.smallest_batch()) << count;
      EXPECT_GE(size.smallest_batch(), size.batch - 1);
      all += batch->size();
      seen.insert(batch->begin(), batch->end());
    }
    EXPECT_EQ(seen.size(), all) << count;
    EXPECT_EQ(static_cast<std::int64_t>(all), std::min(count, wanted)) << count;
    EXPECT_EQ(config::evaluation_size(config_, count).examples, std::min(count, wanted)) << count;
  }
}

TEST_F(Policies, LengthsAreThoseBeforeCutting) {
  const SplitLengths lengths = measure_lengths(load());
  EXPECT_EQ(lengths.prompt.count, 7);
  EXPECT_EQ(lengths.prompt.longest, 44);
  EXPECT_EQ(lengths.response.count, 14);
  EXPECT_EQ(lengths.response.longest, 22);
}

TEST(Lengths, AreSummedUpInEqualParts) {
  std::vector<std::int64_t> lengths(100);
  std::iota(lengths.rbegin(), lengths.rend(), 1);
  const LengthSummary summary = summarize(lengths);
  EXPECT_EQ(summary.mean, 50.5);
  EXPECT_EQ(summary.median, 50);
  EXPECT_EQ(summary.p90, 90);
  EXPECT_EQ(summary.longest, 100);
  ASSERT_EQ(summary.parts.size(), 20u);
  EXPECT_EQ(summary.parts[0], 3);
  EXPECT_EQ(summary.parts[19], 98);
  EXPECT_EQ(summarize({7, 5}).parts, (std::vector<double>{5, 7}));
  EXPECT_TRUE(summarize({}).parts.empty());
}

}  // namespace
}  // namespace dpo::data
