#include "text/pipeline.h"

#include <thread>

#include <gtest/gtest.h>

#include "samples.h"

namespace dpo::text {
namespace {

using Ids = std::vector<Token>;

TEST(Pipeline, ByteLevel) {
  const auto gpt2 = samples::load(samples::gpt2());
  EXPECT_EQ(samples::encode(*gpt2, "hello"), (Ids{*gpt2->id_of("hello")}));
  EXPECT_EQ(samples::encode(*gpt2, "hello<|end|>hello"),
            (Ids{*gpt2->id_of("hello"), *gpt2->id_of("<|end|>"), *gpt2->id_of("hello")}));
  const std::string text = "hello wörld  12\n<|end|>漢😀";
  EXPECT_EQ(gpt2->decode(samples::encode(*gpt2, text), false), text);
  EXPECT_EQ(gpt2->decode(samples::encode(*gpt2, text), true), "hello wörld  12\n漢😀");
  EXPECT_EQ(gpt2->decode(Ids{-1, 1 << 20}, false), "");  // ids without a token leave nothing
  EXPECT_EQ(gpt2->size(), *gpt2->id_of("<|end|>") + 1);
  EXPECT_EQ(gpt2->token_of(*gpt2->id_of("hell")), "hell");
}

TEST(Pipeline, TemplateAddsWhatIsAskedFor) {
  const auto llama = samples::load(samples::llama());
  EXPECT_EQ(samples::encode(*llama, "ab", true), (Ids{1, *llama->id_of("\u2581ab")}));
  EXPECT_EQ(samples::encode(*llama, "ab", false), (Ids{*llama->id_of("\u2581ab")}));
  EXPECT_EQ(samples::encode(*llama, "", true), (Ids{1}));
  EXPECT_EQ(llama->decode(samples::encode(*llama, "a ß</s>", true), false), "<s> a ß</s>");
}

TEST(Pipeline, AnAddedTokenThatIsNormalizedIsLookedForInNormalizedText) {
  samples::Json json = samples::gpt2();
  json["normalizer"] = {{"type", "Lowercase"}};
  const int id = json["added_tokens"][0]["id"].get<int>() + 1;
  json["added_tokens"].push_back(samples::added(id, "XYZ", false));
  const auto engine = samples::load(json);
  EXPECT_EQ(samples::encode(*engine, "xYz"), (Ids{id}));
  EXPECT_EQ(samples::encode(*engine, "<|END|>").size(), 7u);  // this one is looked for as it stands
}

TEST(Pipeline, MetaspaceFirstMeansTheStartOfTheText) {
  samples::Json json = samples::llama();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  const auto engine = samples::load(json);
  EXPECT_EQ(samples::encode(*engine, "a</s>a"), (Ids{*engine->id_of("\u2581a"), 2, *engine->id_of("a")}));
  samples::Json with_normalized = json;
  const int id = static_cast<int>(json["model"]["vocab"].size());
  with_normalized["added_tokens"].push_back(samples::added(id, "[N]", false));
  const auto normalized = samples::load(with_normalized);
  EXPECT_EQ(samples::encode(*normalized, "a[N]a"), (Ids{*engine->id_of("\u2581a"), id, *engine->id_of("a")}));
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  const auto always = samples::load(json);
  EXPECT_EQ(samples::encode(*always, "a</s>a"),
            (Ids{*always->id_of("\u2581a"), 2, *always->id_of("\u2581a")}));
}

TEST(Pipeline, ByteLevelBeforeAnotherStepMapsTheText) {
  samples::Json json = samples::gpt2();
  json["pre_tokenizer"] = samples::sequence(
      "pretokenizers", {samples::byte_level(true), {{"type", "Digits"}, {"individual_digits", true}}});
  const auto engine = samples::load(json);
  EXPECT_EQ(samples::encode(*engine, " 12").size(), 3u);  // the merge of 1 and 2 is cut through
  EXPECT_EQ(engine->decode(samples::encode(*engine, " é12"), false), " é12");
}

TEST(Pipeline, ThreadsGetEqualIds) {
  const auto engine = samples::load(samples::gpt2());
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i)
    texts.push_back("hello world " + std::to_string(i * 7919) +
                    std::string(static_cast<std::size_t>(i), 'l') + " é");
  std::vector<Ids> expected;
  for (const std::string& text : texts) expected.push_back(samples::encode(*engine, text));
  std::vector<int> equal(8, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < equal.size(); ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round)
          for (std::size_t i = 0; i < texts.size(); ++i)
            equal[t] += samples::encode(*engine, texts[i]) == expected[i];
      });
  }
  for (const int count : equal) EXPECT_EQ(count, 4000);
}

}  // namespace
}  // namespace dpo::text
