#include "demo/results.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dpo::demo {
namespace {

Results some_results() {
  Results results;
  results.requests = {{{"Clara", "three", "red", "cups"}, "\n\nHuman: This is <Clara>.\n\nAssistant:"},
                      {{"Tom", "two", "blue", "cups"}, "\n\nHuman: This is Tom.\n\nAssistant:"}};
  results.stages = {
      Stage{"init", "before SFT", {{"\x01\n\x1b[31m red", Judgement::garbled}, {"", Judgement::garbled}}},
      Stage{"sft", "after SFT", {{" Go away.", Judgement::rude}, {" Yes", Judgement::accepted}}},
      Stage{"dpo", "after DPO", {{" Good", Judgement::accepted}, {" Yes", Judgement::accepted}}}};
  results.heldout_accuracy = 0.975;
  results.heldout_pairs = 40;
  results.seconds = 40.5;
  return results;
}

TEST(Results, Json) {
  const auto object = nlohmann::json::parse(to_json(some_results()));
  EXPECT_EQ(
      object,
      nlohmann::json::parse(
          R"({"heldout_accuracy": 0.975, "accepted": {"init": 0, "sft": 0.5, "dpo": 1}, "seconds": 40.5})"));
}

TEST(Results, TextHoldsTableAndSamples) {
  const std::string text = to_text(some_results());
  EXPECT_NE(text.find("held-out reward accuracy                                      0.975 (n=40)\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("samples accepted by the rule             0.0 %        50.0 %       100.0 %\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("  This is <Clara>.\n"), text.npos);
  EXPECT_NE(text.find("    after SFT   rude         Go away.\n"), text.npos);
}

TEST(Results, AModelCannotWriteControlCharactersToTheTerminal) {
  const std::string text = to_text(some_results());
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_NE(text.find("...[31m red\n"), text.npos) << text;
}

}  // namespace
}  // namespace dpo::demo
