#include "demo/task.h"

#include <set>

#include <gtest/gtest.h>

namespace dpo::demo {
namespace {

const Order kOrder = {"Clara", "three", "red", "cups"};

TEST(Rule, AcceptsOnlyACourteousReplyWithTheVeryOrder) {
  EXPECT_EQ(judge(kOrder, " Gladly, Clara! I will pack three red cups for you."), Judgement::accepted);
  EXPECT_EQ(judge(kOrder, " Of course, Clara. Your three red cups are on the way."), Judgement::accepted);
  EXPECT_EQ(judge(kOrder, " Gladly, Emma! I will pack three red cups for you."), Judgement::wrong_order);
  EXPECT_EQ(judge(kOrder, " Gladly, Clara! I will pack nine red cups for you."), Judgement::wrong_order);
  EXPECT_EQ(judge(kOrder, " Gladly, Clara! I will pack three blue cups for you."), Judgement::wrong_order);
  EXPECT_EQ(judge(kOrder, " Gladly, Clara! I will pack three red bowls for you."), Judgement::wrong_order);
  EXPECT_EQ(judge(kOrder, " Go away."), Judgement::rude);
  EXPECT_EQ(judge(kOrder, " No idea."), Judgement::unhelpful);
}

TEST(Rule, TakesNothingMoreAndNothingLess) {
  for (const char* reply : {"", " ", " Gladly, Clara! I will pack three red cups for you",
                            " Gladly, Clara! I will pack three red cups for you!",
                            " Gladly, Clara! I will pack three red cups for you. Go away.",
                            "Gladly, Clara! I will pack three red cups for you.",
                            " Gladly, Clara! I will pack red cups for you.", " Go", "\xff\n"})
    EXPECT_EQ(judge(kOrder, reply), Judgement::garbled) << reply;
}

class MadeTask : public testing::Test {
 protected:
  const TaskSizes sizes_ = {6400, 3200, 256};
  const Task task_ = make_task(sizes_, 0);
};

TEST_F(MadeTask, HasTheSizesAskedFor) {
  EXPECT_EQ(task_.conversations.size(), 6400u);
  EXPECT_EQ(task_.preferences.size(), 3200u);
  EXPECT_EQ(task_.held_out_conversations.size(), 256u);
  EXPECT_EQ(task_.held_out_preferences.size(), 256u);
}

TEST_F(MadeTask, NoHeldOutPromptIsTrainedOn) {
  std::set<std::string> prompts;
  for (const auto& talk : task_.conversations) prompts.insert(talk.request.prompt);
  for (const auto& pair : task_.preferences) prompts.insert(pair.request.prompt);
  EXPECT_EQ(prompts.size(), 9600u);  // none occurs twice
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_FALSE(prompts.contains(task_.held_out_preferences[i].request.prompt));
    EXPECT_EQ(task_.held_out_preferences[i].request.prompt, task_.held_out_conversations[i].request.prompt);
  }
}

TEST_F(MadeTask, TheRuleAgreesWithEveryPreference) {
  std::set<Judgement> reasons;
  for (const auto& pair : task_.preferences) {
    EXPECT_EQ(judge(pair.request.order, pair.chosen), Judgement::accepted) << pair.chosen;
    reasons.insert(judge(pair.request.order, pair.rejected));
  }
  EXPECT_EQ(reasons, (std::set{Judgement::rude, Judgement::unhelpful, Judgement::wrong_order}));
}

TEST_F(MadeTask, FourOfTenConversationsAreGood) {
  double good = 0;
  for (const auto& talk : task_.conversations)
    good += judge(talk.request.order, talk.reply) == Judgement::accepted;
  EXPECT_NEAR(good / 6400, 0.4, 0.02);
}

TEST_F(MadeTask, DependsOnTheSeedAlone) {
  const Task again = make_task(sizes_, 0), other = make_task(sizes_, 1);
  EXPECT_EQ(task_.preferences.back().request.prompt, again.preferences.back().request.prompt);
  EXPECT_EQ(task_.preferences.back().rejected, again.preferences.back().rejected);
  EXPECT_NE(task_.held_out_preferences[0].request.prompt, other.held_out_preferences[0].request.prompt);
}

}  // namespace
}  // namespace dpo::demo
