#include "text/pipeline.h"

#include <thread>

#include <gtest/gtest.h>

#include "tiny_tokenizers.h"

namespace dpo::text {
namespace {

using Ids = std::vector<Token>;

TEST(Pipeline, ByteLevel) {
  const auto gpt2 = tiny::load(tiny::gpt2());
  EXPECT_EQ(tiny::encode(*gpt2, "hello"), (Ids{*gpt2->id_of("hello")}));
  EXPECT_EQ(tiny::encode(*gpt2, "hello<|end|>hello"),
            (Ids{*gpt2->id_of("hello"), *gpt2->id_of("<|end|>"), *gpt2->id_of("hello")}));
  const std::string text = "hello wörld  12\n<|end|>漢😀";
  EXPECT_EQ(gpt2->decode(tiny::encode(*gpt2, text), false), text);
  EXPECT_EQ(gpt2->decode(tiny::encode(*gpt2, text), true), "hello wörld  12\n漢😀");
  EXPECT_EQ(gpt2->decode(Ids{-1, 1 << 20}, false), "");  // ids without a token are skipped
  EXPECT_EQ(gpt2->size(), *gpt2->id_of("<|end|>") + 1);
  EXPECT_EQ(gpt2->token_of(*gpt2->id_of("hell")), "hell");
}

TEST(Pipeline, TemplateAddsSpecialTokensOnRequest) {
  const auto llama = tiny::load(tiny::llama());
  EXPECT_EQ(tiny::encode(*llama, "ab", true), (Ids{1, *llama->id_of("\u2581ab")}));
  EXPECT_EQ(tiny::encode(*llama, "ab", false), (Ids{*llama->id_of("\u2581ab")}));
  EXPECT_EQ(tiny::encode(*llama, "", true), (Ids{1}));
  EXPECT_EQ(llama->decode(tiny::encode(*llama, "a ß</s>", true), false), "<s> a ß</s>");
}

TEST(Pipeline, NormalizedAddedTokensAreLookedForInNormalizedText) {
  tiny::Json json = tiny::gpt2();
  json["normalizer"] = {{"type", "Lowercase"}};
  const int id = json["added_tokens"][0]["id"].get<int>() + 1;
  json["added_tokens"].push_back(tiny::added(id, "XYZ", false));
  const auto codec = tiny::load(json);
  EXPECT_EQ(tiny::encode(*codec, "xYz"), (Ids{id}));
  EXPECT_EQ(tiny::encode(*codec, "<|END|>").size(), 7u);  // this token is not normalized
}

TEST(Pipeline, MetaspaceFirstMeansTheStartOfTheText) {
  tiny::Json json = tiny::llama();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  const auto codec = tiny::load(json);
  EXPECT_EQ(tiny::encode(*codec, "a</s>a"), (Ids{*codec->id_of("\u2581a"), 2, *codec->id_of("a")}));
  tiny::Json with_normalized = json;
  const int id = static_cast<int>(json["model"]["vocab"].size());
  with_normalized["added_tokens"].push_back(tiny::added(id, "[N]", false));
  const auto normalized = tiny::load(with_normalized);
  EXPECT_EQ(tiny::encode(*normalized, "a[N]a"), (Ids{*codec->id_of("\u2581a"), id, *codec->id_of("a")}));
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  const auto always = tiny::load(json);
  EXPECT_EQ(tiny::encode(*always, "a</s>a"), (Ids{*always->id_of("\u2581a"), 2, *always->id_of("\u2581a")}));
}

TEST(Pipeline, ByteLevelBeforeAnotherStepMapsTheText) {
  tiny::Json json = tiny::gpt2();
  json["pre_tokenizer"] = tiny::sequence(
      "pretokenizers", {tiny::byte_level(true), {{"type", "Digits"}, {"individual_digits", true}}});
  const auto codec = tiny::load(json);
  EXPECT_EQ(tiny::encode(*codec, " 12").size(), 3u);  // the merge of 1 and 2 is split
  EXPECT_EQ(codec->decode(tiny::encode(*codec, " é12"), false), " é12");
}

TEST(Pipeline, ThreadsGetEqualIds) {
  const auto codec = tiny::load(tiny::gpt2());
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i)
    texts.push_back("hello world " + std::to_string(i * 7919) +
                    std::string(static_cast<std::size_t>(i), 'l') + " é");
  std::vector<Ids> expected;
  for (const std::string& text : texts) expected.push_back(tiny::encode(*codec, text));
  std::vector<int> equal(8, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < equal.size(); ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round)
          for (std::size_t i = 0; i < texts.size(); ++i)
            equal[t] += tiny::encode(*codec, texts[i]) == expected[i];
      });
  }
  for (const int count : equal) EXPECT_EQ(count, 4000);
}

}  // namespace
}  // namespace dpo::text
