#include "text/folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tiny_tokenizers.h"

namespace dpo::text {
namespace {

class Folder : public testing::Test {
 protected:
  Folder()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("tokenizer_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() override { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

  void write_gpt2() {
    write("vocab.json", R"({"a":0,"b":1,"ab":2,"Ġ":3,"<|endoftext|>":4})");
    write("merges.txt", "#version: 0.2\na b\n");
  }

  std::string error_of_load() {
    try {
      Tokenizer::load(path_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path path_;
};

using Ids = std::vector<Token>;

TEST_F(Folder, Gpt2FilesAloneUseEndOfTextForEverySpecialToken) {
  write_gpt2();
  const Tokenizer tokenizer = Tokenizer::load(path_);
  EXPECT_EQ(tokenizer.encode("ab<|endoftext|>a"), (Ids{2, 4, 0}));
  EXPECT_EQ(tokenizer.eos(), 4);
  EXPECT_EQ(tokenizer.bos(), 4);
  EXPECT_EQ(tokenizer.pad(), std::nullopt);
  EXPECT_EQ(tokenizer.size(), 5);
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{0}));
}

TEST_F(Folder, ConfigSaysWhatAGpt2FolderAdds) {
  write_gpt2();
  write("tokenizer_config.json", R"({"add_prefix_space":true,"add_bos_token":true,"pad_token":"[PAD]",
      "eos_token":{"__type":"AddedToken","content":"b","lstrip":false}})");
  const Tokenizer tokenizer = Tokenizer::load(path_);
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{4, 3, 0}));
  EXPECT_EQ(tokenizer.eos(), 1);
  EXPECT_EQ(tokenizer.pad(), 5);
}

TEST_F(Folder, TheMapOverridesAnOlderConfig) {
  write("tokenizer.json", tiny::llama().dump());
  write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"<s>"})");
  write("special_tokens_map.json", R"({"eos_token":"</s>"})");
  EXPECT_EQ(Tokenizer::load(path_).eos(), 2);
  EXPECT_EQ(Tokenizer::load(path_).bos(), 1);
  write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"<s>","added_tokens_decoder":{}})");
  EXPECT_EQ(Tokenizer::load(path_).eos(), 1);
}

TEST_F(Folder, TokensOfOtherFilesAreAdded) {
  write_gpt2();
  write("added_tokens.json", R"({"[B]":6,"[A]":5})");
  EXPECT_EQ(Tokenizer::load(path_).encode("[A]a[B]"), (Ids{5, 0, 6}));
  write("added_tokens.json", R"({"[A]":9})");
  EXPECT_NE(error_of_load().find("added_tokens.json: [\"[A]\"] is 9; expected the id 5"), std::string::npos)
      << error_of_load();
}

TEST_F(Folder, SpecialTokensMustBeInTheVocabularyExceptPadding) {
  write("tokenizer.json", tiny::llama().dump());
  write("tokenizer_config.json", R"({"eos_token":"</s>","pad_token":"[PAD]"})");
  EXPECT_EQ(Tokenizer::load(path_).pad(), std::nullopt);
  write("tokenizer_config.json", R"({"eos_token":"<end>"})");
  EXPECT_NE(error_of_load().find(
                "tokenizer_config.json: eos_token is \"<end>\"; expected a token of the vocabulary"),
            std::string::npos);
}

TEST_F(Folder, FingerprintDependsOnEveryFileThatIsRead) {
  write_gpt2();
  const std::string before = Tokenizer::load(path_).fingerprint();
  EXPECT_EQ(before.size(), 64u);
  EXPECT_EQ(Tokenizer::load(path_).fingerprint(), before);
  write("README.md", "not read");
  EXPECT_EQ(Tokenizer::load(path_).fingerprint(), before);
  write("tokenizer_config.json", "{}");
  const std::string with_config = Tokenizer::load(path_).fingerprint();
  EXPECT_NE(with_config, before);
  write("tokenizer_config.json", "{ }");
  EXPECT_NE(Tokenizer::load(path_).fingerprint(), with_config);
}

TEST_F(Folder, InvalidUtf8IsReplaced) {
  write("tokenizer.json", tiny::gpt2().dump());
  const Tokenizer tokenizer = Tokenizer::load(path_);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFF\xE2\x82z")), "a\uFFFD\uFFFDz");
}

TEST_F(Folder, FoldersWithoutATokenizer) {
  EXPECT_NE(error_of_load().find("; expected tokenizer.json"), std::string::npos);
  write("vocab.json", "{}");
  EXPECT_NE(error_of_load().find("no tokenizer in"), std::string::npos);
  write("merges.txt", "");
  EXPECT_NE(
      error_of_load().find("vocab.json: the file is an object with 0 members; expected at least one token"),
      std::string::npos)
      << error_of_load();
  write("vocab.json", R"({"a":0})");
  write("merges.txt", "#version: 0.2\na\n");
  EXPECT_NE(error_of_load().find("merges.txt:2: expected two tokens"), std::string::npos) << error_of_load();
  write("merges.txt", "a b\n");
  EXPECT_NE(error_of_load().find("merges.txt: merge 1 (a b) needs the token b"), std::string::npos)
      << error_of_load();
  std::filesystem::remove(path_ / "merges.txt");
  write("tokenizer.model", "not a model");
  EXPECT_NE(error_of_load().find("tokenizer.model: not a sentencepiece model"), std::string::npos)
      << error_of_load();
  std::filesystem::remove_all(path_);
  EXPECT_NE(error_of_load().find("is not a folder"), std::string::npos);
}

TEST_F(Folder, AFileThatIsTooLargeIsNotRead) {
  write("tokenizer.json", "{");
  std::filesystem::resize_file(path_ / "tokenizer.json", 1u << 30);  // sparse: it uses no disk space
  EXPECT_NE(error_of_load().find("tokenizer.json is larger than"), std::string::npos) << error_of_load();
}

}  // namespace
}  // namespace dpo::text
