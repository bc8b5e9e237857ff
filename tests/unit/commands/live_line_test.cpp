#include "commands/live_line.h"

#include <gtest/gtest.h>

#include "base/terminal.h"
#include "commands/progress.h"

namespace dpo::commands {
namespace {

const LiveUpdate kDpo{.update = 36,
                      .updates = 400,
                      .loss = 0.6931,
                      .accuracy = 0.8125,
                      .margin = 0.1234,
                      .gradient_norm = 5.351,
                      .learning_rate = 0.002,
                      .examples_per_second = 212.13,
                      .seconds_left = 57};

LiveUpdate sft() {
  LiveUpdate update = kDpo;
  update.accuracy = update.margin = NAN;
  return update;
}

TEST(LiveLine, ShowsWhatFits) {
  EXPECT_EQ(live_line(kDpo, 160),
            "update 36 of 400 [===                                     ]   9 %  loss 0.6931  accuracy 0.812  "
            "margin +0.123  norm 5.35  lr 0.002  212 examples/s  57 s left");
  EXPECT_EQ(live_line(kDpo, 77), "36/400  loss 0.6931  acc 0.812  margin +0.123  212/s  57 s left");
  LiveUpdate first = kDpo;
  first.accuracy = first.margin = 0;  // policy and reference are still equal
  EXPECT_EQ(live_line(first, 77), "36/400  loss 0.6931  acc 0.5 (ties)  margin +0.000  212/s  57 s left");
  EXPECT_EQ(live_line(sft(), 77),
            "update 36 of 400 [=           ]   9 %  loss 0.6931  212 examples/s  57 s left");
  EXPECT_EQ(live_line(kDpo, 50), "36/400  loss 0.6931  acc 0.812  57 s left");
  EXPECT_EQ(live_line(kDpo, 20), "36/400  loss 0.6931");
  EXPECT_EQ(live_line(kDpo, 5), "36/40");
}

TEST(LiveLine, NeverWraps) {
  LiveUpdate large = kDpo;
  large.update = large.updates = 12'345'678;
  large.loss = 12345.6789;
  large.margin = -1234.5;
  large.examples_per_second = 123456;
  large.seconds_left = 1e7;
  for (const LiveUpdate& update : {kDpo, sft(), large})
    for (std::size_t columns = 1; columns <= 200; ++columns)
      EXPECT_LE(live_line(update, columns).size(), columns) << live_line(update, columns);
}

TEST(LiveLine, LeavesOutWhatIsUnknown) {
  LiveUpdate last = sft();
  last.update = last.updates;
  last.seconds_left = NAN;
  const std::string line = live_line(last, 200);
  EXPECT_EQ(line.find("nan"), std::string::npos) << line;
  EXPECT_EQ(line.find("left"), std::string::npos) << line;
  EXPECT_NE(line.find("=] 100 %"), std::string::npos) << line;
}

TEST(ProgressBar, CutsALongNameAtItsBeginning) {
  EXPECT_EQ(progress_bar("reading", 0.5, "1 of 2", 80), "reading [==========          ]  50 %  1 of 2");
  EXPECT_EQ(progress_bar("/a/long/path/日本.jsonl", 0.5, "1 of 2", 50),
            "...日本.jsonl [==========          ]  50 %  1 of 2");
  for (std::size_t columns = 1; columns <= 200; ++columns)
    EXPECT_LE(columns_of(progress_bar("/ä/日本/" + std::string(90, 'x'), 1, "2 of 2 prompts, 3 s", columns)),
              columns);
}

TEST(ProgressBar, IsFullAtMost) {
  EXPECT_EQ(progress_bar("reading", 1.5, "3 of 2", 80), "reading [====================] 100 %  3 of 2");
  LiveUpdate last = sft();
  last.update = last.updates + 1;
  EXPECT_NE(live_line(last, 200).find("=] 100 %"), std::string::npos);
}

}  // namespace
}  // namespace dpo::commands
