#include "report/turns.h"

#include <gtest/gtest.h>

namespace dpo::report {
namespace {

// Returns "role: text | role: text".
std::string shown(const std::vector<Turn>& turns) {
  std::string text;
  for (const Turn& turn : turns) text += (text.empty() ? "" : " | ") + turn.role + ": " + turn.text;
  return text;
}

std::string prompt_turns(const std::string& prompt) { return shown(turns_of(prompt, turn_style_of(prompt))); }

TEST(Turns, OfEachStyle) {
  const std::string expected = "system: Be brief. | user: Hi\nthere | assistant: Hello | user: Bye";
  EXPECT_EQ(prompt_turns("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\nthere<|im_end|>\n"
                         "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
                         "<|im_start|>assistant\n"),
            expected);
  EXPECT_EQ(prompt_turns("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                         "<|start_header_id|>user<|end_header_id|>\n\nHi\nthere<|eot_id|>"
                         "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
                         "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
                         "<|start_header_id|>assistant<|end_header_id|>\n\n"),
            expected);
  for (const std::string end : {"</s>\n", "<|end|>\n", "\n"})  // Zephyr, Phi-3, GLM-4
    EXPECT_EQ(prompt_turns("<|system|>\nBe brief." + end + "<|user|>\nHi\nthere" + end +
                           "<|assistant|>\nHello" + end + "<|user|>\nBye" + end + "<|assistant|>\n"),
              expected);
  EXPECT_EQ(prompt_turns("<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi\nthere[/INST]Hello</s>"
                         "[INST]Bye[/INST]"),
            expected);
  EXPECT_EQ(prompt_turns("<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello"
                         "<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"),
            "user: Hi | model: Hello | user: Bye");
  EXPECT_EQ(prompt_turns("<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hi<｜Assistant｜>Hello"
                         "<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜>"),
            ": Be brief. | user: Hi | assistant: Hello | user: Bye");
}

TEST(Turns, APlainTextIsUnchanged) {
  for (const std::string text : {"\n\nHuman: Hi\n\nAssistant:", "", "<|im_start|>", "<|im_start|>\nHi",
                                 "<|im_start|>not a role\n", "<|start_header_id|>user", "</s>"})
    EXPECT_EQ(prompt_turns(text), ": " + text);
}

TEST(Turns, AnAnswerContinuesItsPrompt) {
  const TurnStyle* const style = turn_style_of("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(shown(turns_of("Hello<|im_end|>\n", style)), ": Hello");
  EXPECT_EQ(shown(turns_of("", style)), ": ");
  EXPECT_EQ(shown(turns_of("<s>old</s> new", style)), ": <s>old</s> new");
  EXPECT_EQ(shown(turns_of("Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n", style)),
            ": Hello | user: Bye");
}

TEST(Turns, OfACutPromptBeginWithoutARole) {
  EXPECT_EQ(prompt_turns("the end<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"), ": the end | user: Hi");
}

TEST(Turns, AreCut) {
  const std::vector<Turn> turns = {{"system", "abc"}, {"user", "défg"}, {"assistant", "h"}};
  EXPECT_EQ(shown(end_of(turns, 100)), shown(turns));
  EXPECT_EQ(shown(end_of(turns, 4)), ": (1 turn before) | user: (2 characters before) … fg | assistant: h");
  EXPECT_EQ(shown(beginning_of(turns, 6)), "system: abc | user: dé … (2 characters more) | : (1 turn more)");
}

// The page of a hostile run must be bounded, so empty turns count too.
TEST(Turns, OfAHugeTextAreBounded) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "<|user|>";
  const std::vector<Turn> turns = turns_of(text, turn_style_of(text));
  EXPECT_EQ(turns.size(), 199'999u);
  EXPECT_EQ(end_of(turns, 10).size(), 11u);
  EXPECT_EQ(beginning_of(turns, 10).size(), 11u);
}

}  // namespace
}  // namespace dpo::report
