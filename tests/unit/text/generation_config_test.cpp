#include "text/generation_config.h"

#include <gtest/gtest.h>

namespace dpo::text {
namespace {

const AnswerEnds kEnds = {{7, 9}, 3};

TEST(GenerationConfig, KeepsWhatTheFileSaysAndAddsTheEnds) {
  const std::string file =
      R"({"do_sample": true, "eos_token_id": [8, 9], "temperature": 0.6, "pad_token_id": 5})";
  EXPECT_EQ(with_ends(file, "", kEnds), R"({
  "do_sample": true,
  "eos_token_id": [
    8,
    9,
    7
  ],
  "temperature": 0.6,
  "pad_token_id": 5
}
)");
}

TEST(GenerationConfig, IsUnchangedIfItSaysAllOfIt) {
  const std::string file = R"({"eos_token_id":[9,1,7],"pad_token_id":0})";
  EXPECT_EQ(with_ends(file, R"({"eos_token_id": 2, "pad_token_id": 4})", kEnds), file);
  const std::string one = R"({"eos_token_id": 7, "pad_token_id": 0})";
  EXPECT_EQ(with_ends(one, "", {{7}, 3}), one);
}

// Without the file, transformers takes these values from config.json.
TEST(GenerationConfig, IsMadeFromTheConfigurationOfTheModel) {
  const std::string config =
      R"({"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 4})";
  for (const char* file : {"", "not JSON", "[1]"}) {
    const std::string made = with_ends(file, config, kEnds);
    EXPECT_EQ(eos_ids(made), (std::vector<Token>{2, 7, 9})) << file;
    EXPECT_NE(made.find("\"bos_token_id\": 1"), made.npos);
    EXPECT_NE(made.find("\"pad_token_id\": 4"), made.npos) << "the model's own rather than the tokenizer's";
    EXPECT_EQ(made.find("model_type"), made.npos);
  }
  EXPECT_EQ(with_ends("", "", {{7}, std::nullopt}), "{\n  \"eos_token_id\": [\n    7\n  ]\n}\n");
}

TEST(GenerationConfig, WithoutEndsTakesThoseOfTheModel) {
  EXPECT_EQ(
      eos_ids(with_ends(R"({"temperature": 1, "eos_token_id": null})", R"({"eos_token_id": 2})", kEnds)),
      (std::vector<Token>{2, 7, 9}));
}

TEST(GenerationConfig, MayHaveIdsThatAreNone) {
  EXPECT_EQ(eos_ids(R"({"eos_token_id": [-1, "2", 3.5, 99999999999, 4]})"), (std::vector<Token>{4}));
  EXPECT_EQ(eos_ids(R"({"eos_token_id": {"id": 2}})"), (std::vector<Token>{}));
  const std::string deep(1 << 20, '[');
  EXPECT_EQ(with_ends("{\"a\": " + deep, "", {{7}, std::nullopt}), with_ends("", "", {{7}, std::nullopt}));
  const std::string closed = "{\"a\": " + deep + std::string(deep.size(), ']') + "}";
  EXPECT_EQ(with_ends(closed, closed, {{7}, std::nullopt}), with_ends("", "", {{7}, std::nullopt}));
}

}  // namespace
}  // namespace dpo::text
