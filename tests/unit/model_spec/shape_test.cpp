#include "model/spec/shape.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace dpo::model {
namespace {

std::string shape_message(const std::string& json) {
  try {
    parse_shape(json, "m/config.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

constexpr const char* kLlamaJson = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 176,
  "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128)";

TEST(Shape, FillsInWhatAConfigMayLeaveOut) {
  const ModelShape llama = parse_shape(std::string(kLlamaJson) + "}", "m");
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_FALSE(llama.tied_embeddings);
  const ModelShape gpt2 = parse_shape(
      R"({"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2,"n_inner":null,"vocab_size":9,"n_positions":4})",
      "m");
  EXPECT_EQ(gpt2.ffn, 32);
  EXPECT_TRUE(gpt2.tied_embeddings);
}

// The compiler finds a family that the code forgets. This test finds one that the documentation and the
// parity tests forget.
TEST(Families, AreAllDocumentedAndComparedWithTransformers) {
  const std::string source = DPO_SOURCE_DIR;
  const std::string models = read_text_file(source + "/docs/models.md", "test");
  const std::string tiny = read_text_file(source + "/tests/parity/tiny_models.py", "test");
  ASSERT_FALSE(all_families().empty());
  for (const Family family : all_families()) {
    const FamilyInfo info = info_of(family);
    EXPECT_NE(models.find(info.name), std::string::npos) << "docs/models.md: " << info.name;
    EXPECT_NE(tiny.find(std::string("\n    \"") + info.model_type + "\": "), std::string::npos)
        << "tests/parity/tiny_models.py: " << info.model_type;
  }
}

TEST(Shape, SaysWhichFileAndKeyIsWrong) {
  struct Case {
    std::string json, expected;
  };
  const std::string llama = kLlamaJson;
  const Case cases[] = {
      {"", "m/config.json: not a JSON object"},
      {"[]", "not a JSON object"},
      {"{\"a\": ", "not a JSON object"},
      {"{}", "'model_type' is missing"},
      {R"({"model_type": 3})", "'model_type' is missing or not a string"},
      {R"({"model_type": "qwen3_5"})", "olmoe); choose a model of one of these architectures"},
      {R"({"model_type": "bert"})", "supported: gpt2, gpt_neox"},
      {R"({"model_type": "llama"})", "'num_hidden_layers' is missing"},
      {R"({"model_type": "gpt2", "n_layer": "two"})", "'n_layer' is \"two\", expected a whole number"},
      {R"({"model_type": "gpt2", "n_layer": 0})", "'n_layer' is 0"},
      {R"({"model_type": "gpt2", "n_layer": 99999999999999999999})", "'n_layer' is"},
      {R"({"model_type": "gpt2", "n_layer": -1})", "'n_layer' is -1"},
      {llama + R"(, "tie_word_embeddings": "yes"})",
       "'tie_word_embeddings' is \"yes\", expected true or false"},
      {R"({"model_type": "gpt2", "n_layer": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
       "nested deeper than 64 levels; not a model's configuration"},
      {llama + R"(, "num_hidden_layers": 5000})", "5000 layers are more than the 4096"},
      {llama + R"(, "num_key_value_heads": 3})", "4 attention heads cannot share 3 key/value heads"},
      {llama + R"(, "num_attention_heads": 5})", "a hidden size of 64 cannot be split over 5 heads"},
  };
  for (const Case& c : cases)
    EXPECT_NE(shape_message(c.json).find(c.expected), std::string::npos) << shape_message(c.json);
}

}  // namespace
}  // namespace dpo::model
