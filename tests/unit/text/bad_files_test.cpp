#include <gtest/gtest.h>

#include "base/error.h"
#include "tiny_tokenizers.h"

namespace dpo::text {
namespace {

using tiny::Json;

std::string error_of(const std::string& text) {
  try {
    tiny::load(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

struct BadFile {
  const char* pointer;  // the part of a valid file that is replaced
  const char* value;
  const char* message;  // part of the expected message
};

const BadFile kBadFiles[] = {
    {"", "[]", "the file is an array of 0; expected an object"},
    {"/version", "\"2.0\"", "version is \"2.0\"; expected 1.0"},
    {"/model", "null", "model is missing"},
    {"/model/type", "\"Unigram\"", "model.type is \"Unigram\"; expected BPE"},
    {"/model/vocab", "null", "model.vocab is missing"},
    {"/model/vocab", "[]", "model.vocab is an array of 0; expected an object"},
    {"/model/vocab", "{}", "expected at least one token"},
    {"/model/vocab/a", "-1", "model.vocab[\"a\"] is -1; expected an id from 0"},
    {"/model/vocab/a", "4000000000", "model.vocab[\"a\"] is 4000000000; expected an id"},
    {"/model/vocab/a", "1.5", "model.vocab[\"a\"] is 1.5; expected a whole number"},
    {"/model/vocab/a", "18446744073709551615", "expected a whole number"},
    {"/model/vocab/a", "98", "model.vocab: the tokens "},
    {"/model/merges", "null", "model.merges is missing"},
    {"/model/merges/0", "\"ab\"", "model.merges[0] is \"ab\"; expected two tokens with a space"},
    {"/model/merges/0", "\"a b c\"", "expected two tokens with a space"},
    {"/model/merges/0", "[\"a\"]", "model.merges[0] is an array of 1; expected a pair"},
    {"/model/merges/0", "[\"a\",1]", "model.merges[0][1] is 1; expected a string"},
    {"/model/merges/0", "[\"a\",\"nope\"]", "model.merges: merge 1 (a nope) needs the token nope"},
    {"/model/merges/0", "\"a b\"", "merge 1 (a b) needs the token ab"},
    {"/model/unk_token", "\"<nope>\"", "model.unk_token is \"<nope>\"; expected a token of model.vocab"},
    {"/model/dropout", "0.1", "model.dropout is 0.1; expected null"},
    {"/model/continuing_subword_prefix", "\"##\"",
     "model.continuing_subword_prefix is \"##\"; expected null"},
    {"/model/end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix is \"</w>\"; expected null"},
    {"/model/byte_fallback", "1", "model.byte_fallback is 1; expected true or false"},
    {"/added_tokens", "{}", "added_tokens is an object with 0 members; expected an array"},
    {"/added_tokens/0/id", "99999", "added_tokens[0].id is 99999; expected the id 263"},
    {"/added_tokens/0/id", "\"x\"", "added_tokens[0].id is \"x\"; expected a whole number"},
    {"/added_tokens/0/content", "\"\"", "added_tokens[0].content is \"\"; expected a non-empty string"},
    {"/added_tokens/0/lstrip", "\"yes\"", "added_tokens[0].lstrip is \"yes\"; expected true or false"},
    {"/normalizer", R"({"type":"BertNormalizer"})",
     "normalizer.type is \"BertNormalizer\"; expected one of Lowercase, NFC"},
    {"/normalizer", R"({"type":"Precompiled"})", "normalizer.type is \"Precompiled\""},
    {"/normalizer", R"({"type":"Replace","pattern":{"String":""},"content":""})",
     "normalizer.pattern.String is \"\""},
    {"/normalizer", R"({"type":"Sequence","normalizers":[{"type":"Nmt"}]})",
     "normalizer.normalizers[0].type is \"Nmt\""},
    {"/pre_tokenizer", R"({"type":"BertPreTokenizer"})", "pre_tokenizer.type is \"BertPreTokenizer\""},
    {"/pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})",
     "pre_tokenizer.pattern.Regex: invalid regular expression ("},
    {"/pre_tokenizer", R"({"type":"Split","pattern":{"Glob":"*"},"behavior":"Isolated"})",
     "expected an object with String or Regex"},
    {"/pre_tokenizer", R"({"type":"Split","pattern":{"String":"x"},"behavior":"Keep"})",
     "pre_tokenizer.behavior is \"Keep\"; expected Removed"},
    {"/pre_tokenizer", R"({"type":"Metaspace","replacement":"__"})",
     "pre_tokenizer.replacement is \"__\"; expected one character"},
    {"/pre_tokenizer", R"({"type":"Metaspace","replacement":"_","prepend_scheme":"last"})",
     "prepend_scheme is \"last\"; expected first, never"},
    {"/pre_tokenizer",
     R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false})",
     "add_prefix_space is false"},
    {"/post_processor", R"({"type":"BertProcessing"})",
     "post_processor.type is \"BertProcessing\"; expected one of ByteLevel"},
    {"/post_processor",
     R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}})",
     "post_processor.special_tokens.x is missing"},
    {"/post_processor",
     R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[264]}}})",
     "ids[0] is 264; expected an id of the vocabulary, 0 to 263"},
    {"/post_processor",
     R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}],"special_tokens":{}})",
     "id is \"B\"; expected A"},
    {"/decoder", R"({"type":"WordPiece"})", "decoder.type is \"WordPiece\"; expected one of ByteFallback"},
    {"/decoder", R"({"type":"Strip","content":" ","start":-1,"stop":0})",
     "decoder.start is -1; expected a number >= 0"},
};

TEST(BadFiles, EachErrorNamesItsField) {
  for (const BadFile& bad : kBadFiles) {
    Json file = tiny::gpt2();
    file[Json::json_pointer(bad.pointer)] = Json::parse(bad.value);
    const std::string error = error_of(file.dump());
    EXPECT_TRUE(error.starts_with("tokenizer.json: ")) << error;
    EXPECT_NE(error.find(bad.message), std::string::npos)
        << bad.pointer << " = " << bad.value << ": " << error;
  }
}

TEST(BadFiles, InvalidJson) {
  EXPECT_NE(error_of("").find("not valid JSON at line 1, column 1: the text ends"), std::string::npos);
  EXPECT_NE(error_of("{\"version\":").find("is it complete?"), std::string::npos);
  EXPECT_NE(error_of("[1e999]").find("the number 1e999 is too large"), std::string::npos);
  EXPECT_NE(error_of("{\"a\":\"\xFF\"}").find("not valid JSON"), std::string::npos);
  const std::string whole = tiny::gpt2().dump();
  EXPECT_NE(error_of(whole.substr(0, whole.size() / 2)).find("not valid JSON"), std::string::npos);
}

TEST(BadFiles, DeepNestingIsRefusedBeforeParsing) {
  EXPECT_NE(error_of(std::string(100000, '[')).find("nested deeper"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += R"({"normalizer":)";
  EXPECT_NE(error_of(objects).find("nested deeper"), std::string::npos);
  EXPECT_EQ(error_of(R"(["[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["])")
                .find("nested deeper"),
            std::string::npos);
}

TEST(BadFiles, AddedTokensThatCannotBeDistinguished) {
  Json file = tiny::gpt2();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"].push_back(tiny::added(264, "XY", false));
  file["added_tokens"].push_back(tiny::added(265, "xy", false));
  EXPECT_NE(error_of(file.dump()).find("the added token xy cannot be distinguished from another"),
            std::string::npos);
}

}  // namespace
}  // namespace dpo::text
