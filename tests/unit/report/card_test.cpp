#include "report/card.h"

#include <gtest/gtest.h>

namespace dpo::report {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

CardRun some_run() {
  CardRun run;
  run.base = run.base_model = "org/base";
  run.data = {"pairs.jsonl"};
  run.loss = "ipo";
  run.examples = 3200;
  run.updates = 100;
  run.eval_examples = 256;
  run.evaluations = {{0, 0.5, 0, 0, 256}, {3200, 0.25, 0.75, 1.5, 256}};
  run.settings = {{"learning rate", "1e-6"}};
  run.command = "dpo train loss=ipo";
  return run;
}

TEST(Card, SaysWhatTheRunShows) {
  const std::string card = model_card({.repository = "me/it", .run = some_run()});
  EXPECT_TRUE(card.starts_with(
      "---\nlibrary_name: transformers\npipeline_tag: text-generation\nbase_model: \"org/base\"\ntags:\n"
      "- \"ipo\"\n---\n\n# it\n\n"
      "[org/base](https://huggingface.co/org/base), trained by preference optimization with the loss `ipo` "
      "on "
      "`pairs.jsonl`: 3,200 examples, 100 updates. On 256 held-out examples: loss 0.5000 → 0.2500, reward "
      "accuracy 0.750, evaluated after 0 and 3,200 examples.\n"))
      << card;
  EXPECT_TRUE(has(card, "| 0 | 0.5000 | 0.5 (ties, n=256) | 0.000 |\n")) << card;
  EXPECT_TRUE(has(card, "| 3200 | 0.2500 | 0.750 (n=256) | 1.500 |\n"));
  EXPECT_TRUE(has(card, "so all pairs are ties."));
  EXPECT_TRUE(has(card, "| learning rate | `1e-6` |\n"));
  EXPECT_TRUE(has(card, "```sh\ndpo train loss=ipo\n```\n"));
  EXPECT_TRUE(is_model_card(card) && is_unchanged_card(card));
  EXPECT_FALSE(has(card, "datasets:"));
  EXPECT_FALSE(has(card, "chat_template"));
}

TEST(Card, ShowsWhetherItWasEdited) {
  const std::string card = model_card({.repository = "me/it", .run = some_run()});
  std::string edited = card;
  edited.replace(edited.find("# it"), 4, "# It");
  for (const std::string& text : {edited, card + "more\n", "x" + card}) {
    EXPECT_TRUE(is_model_card(text));
    EXPECT_FALSE(is_unchanged_card(text));
  }
  EXPECT_FALSE(is_model_card("# Mine\n"));
  EXPECT_FALSE(is_unchanged_card(""));
}

TEST(Card, SaysThatNothingWasMeasured) {
  CardRun run = some_run();
  run.evaluations.clear();
  const std::string card = model_card({.repository = "me/it", .run = run});
  EXPECT_TRUE(has(card, "It was not evaluated during training."));
  EXPECT_FALSE(has(card, "## Evaluation"));
  EXPECT_FALSE(has(card, "held-out"));
}

TEST(Card, SaysThatTheLastUpdatesWereNotEvaluated) {
  CardRun run = some_run();
  run.examples = 3201;
  EXPECT_TRUE(has(model_card({.repository = "me/it", .run = run}),
                  "; this model was trained on 1 example more and not evaluated after that."));
}

TEST(Card, SaysWhatChoseTheCheckpoint) {
  CardRun run = some_run();
  run.chosen_by = "loss/eval";
  EXPECT_TRUE(has(model_card({.repository = "me/it", .run = run}),
                  " examples. This checkpoint was chosen by `loss/eval` on the same examples.\n"));
}

TEST(Card, OfSftHasNoRewards) {
  CardRun run = some_run();
  run.loss = "sft";
  run.evaluations = {{3200, 2.5}};
  const std::string card = model_card({.repository = "me/it", .run = run});
  EXPECT_TRUE(has(card, "loss 2.5000, evaluated once, after 3,200 examples.")) << card;
  EXPECT_TRUE(has(card, "| examples trained on | loss |\n|---|---|\n| 3200 | 2.5000 |\n")) << card;
  EXPECT_FALSE(has(card, "reward"));
}

TEST(Card, ShowsADozenEvaluations) {
  CardRun run = some_run();
  run.evaluations.clear();
  for (int i = 0; i <= 100; ++i) run.evaluations.push_back({i * 32.0, 1.0});
  const std::string card = model_card({.repository = "me/it", .run = run});
  std::size_t rows = 0;
  for (std::size_t at = card.find(" | 1.0000 |"); at != card.npos; at = card.find(" | 1.0000 |", at + 1))
    ++rows;
  EXPECT_EQ(rows, 12u);
  EXPECT_TRUE(has(card, "12 of 101 evaluations are shown."));
  EXPECT_TRUE(has(card, "| 0 | 1.0000 |"));
  EXPECT_TRUE(has(card, "| 3200 | 1.0000 |"));
}

TEST(Card, EscapesValues) {
  CardRun run = some_run();
  run.base = "a`|\nb";
  run.base_model = "";
  run.datasets = {"x: \"y\"\n- z"};
  run.settings = {{"chat template", "a|b"}};
  const std::string card = model_card({.repository = "me/it", .run = run});
  EXPECT_TRUE(has(card, "datasets:\n- \"x: \\\"y\\\"\\n- z\"\n"));
  EXPECT_TRUE(has(card, "`a'\\| b`, trained"));
  EXPECT_TRUE(has(card, "| chat template | `a\\|b` |\n"));
  EXPECT_FALSE(has(card, "base_model"));
}

TEST(Card, OfAModelWithoutARunClaimsNothing) {
  const std::string card = model_card({.repository = "me/it", .revision = "v2", .has_chat_template = true});
  EXPECT_TRUE(has(card, "Nothing is known here about how this model was trained."));
  EXPECT_TRUE(has(card, R"(from_pretrained("me/it", revision="v2"))"));
  EXPECT_TRUE(has(card, "apply_chat_template"));
  EXPECT_FALSE(has(card, "## Training"));
  EXPECT_FALSE(has(card, "tags"));
}

}  // namespace
}  // namespace dpo::report
