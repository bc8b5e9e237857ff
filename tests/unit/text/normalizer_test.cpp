#include "text/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tiny_tokenizers.h"

namespace dpo::text {
namespace {

std::string normalized(const char* json, std::string_view text) {
  const JsonFile file(json, "test");
  Normalized storage;
  return std::string(read_normalizer(file.root()).apply(text, storage));
}

bool keeps_start(const char* json, std::string_view text) {
  const JsonFile file(json, "test");
  Normalized storage;
  read_normalizer(file.root()).apply(text, storage);
  return storage.keeps_start;
}

TEST(Normalizer, NormalForms) {
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "e\u0301 \u1100\u1161 Å"), "é \uAC00 Å");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "é\uAC00"), "e\u0301\u1100\u1161");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "ﬁ½²"), "fi1\u204422");
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "ﬁé"), "fie\u0301");
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "plain"), "plain");
}

// Only parts of a text are given to the library. Together they must equal its result for the whole.
TEST(Normalizer, PartsAreNormalizedAsTheWhole) {
  const std::vector<std::string> pieces = {
      "a",      "e",      " ", "é", "ñ",      "\u0301", "\u0327", "\u0345", "\u1100", "\u1161",
      "\u11A8", "\uAC00", "ﬁ", "½", "\u2019", "中",     "\u0958", "\u212B", "\u1E9B", "\u0323"};
  const std::pair<const char*, int> forms[] = {{R"({"type":"NFC"})", UTF8PROC_COMPOSE},
                                               {R"({"type":"NFD"})", UTF8PROC_DECOMPOSE},
                                               {R"({"type":"NFKC"})", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                                               {R"({"type":"NFKD"})", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t i = random() % 12; i > 0; --i) text += pieces[random() % pieces.size()];
    for (const auto& [json, options] : forms) {
      utf8proc_uint8_t* whole = nullptr;
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()), 0, &whole,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_NULLTERM | options));
      EXPECT_EQ(normalized(json, text), reinterpret_cast<const char*>(whole)) << json << " " << text;
      std::free(whole);
    }
  }
}

// The library's normal forms follow Unicode 9. Later characters stay unchanged, and nothing moves across
// them.
TEST(Normalizer, LaterCharactersStayAsTheyAre) {
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\u32FF"), "\u32FF");
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "\U00011935\U00011930"), "\U00011935\U00011930");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "a\u0345\u0EBA\u0301"), "a\u0345\u0EBA\u0301");
}

TEST(Normalizer, Steps) {
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", "a"), "_a");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", ""), "");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"."},"content":"!"})", "a.b."), "a!b!");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"Regex":"[0-9]+"},"content":"#"})", "a12b3"), "a#b#");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":false})", "\u3000 a "), "a ");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":false,"strip_right":true})", " a \n"), " a");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \n"), "");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "ÀİΣẞ\u1C89"), "ài\u0307σß\u1C8A");
  EXPECT_EQ(
      normalized(
          R"({"type":"Sequence","normalizers":[{"type":"Lowercase"},{"type":"Prepend","prepend":"A"}]})",
          "B"),
      "Ab");
}

std::string doubling(const std::string& list, int times) {
  std::vector<tiny::Json> steps;
  for (int i = 0; i < times; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  return tiny::sequence(list, steps).dump();
}

TEST(Normalizer, RefusesToMultiplyAText) {
  EXPECT_EQ(normalized(doubling("normalizers", 4).c_str(), "a"), std::string(16, 'a'));
  EXPECT_THROW(normalized(doubling("normalizers", 40).c_str(), "a"), UserError);
  // One step is enough if its content is long, or if its pattern matches between all characters.
  const std::string content(1 << 20, 'x');
  const tiny::Json step = {{"type", "Replace"}, {"pattern", {{"Regex", "a|"}}}, {"content", content}};
  EXPECT_THROW(normalized(step.dump().c_str(), std::string(1 << 20, 'a')), UserError);
  const tiny::Json prefix = {{"type", "Prepend"}, {"prepend", content}};
  EXPECT_THROW(normalized(prefix.dump().c_str(), "a"), UserError);
  // Real tokenizers expand texts too: one character becomes 18.
  const std::string long_form = normalized(R"({"type":"NFKD"})", std::string("\uFDFA"));
  EXPECT_EQ(long_form.size(), 33u);
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "\uFDFA";
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", many).size(), 330000u);
}

TEST(Decoder, RefusesToMultiplyAText) {
  const JsonFile file(doubling("decoders", 40), "test");
  EXPECT_THROW(read_decoder(file.root()).apply({"a", "b"}), UserError);
}

TEST(Normalizer, TracksWhetherTheStartIsKept) {
  EXPECT_TRUE(keeps_start(R"({"type":"Prepend","prepend":"_"})", "a"));
  EXPECT_FALSE(keeps_start(R"({"type":"Strip","strip_left":true,"strip_right":false})", " a"));
  EXPECT_TRUE(keeps_start(R"({"type":"Strip","strip_left":true,"strip_right":false})", "a"));
  EXPECT_FALSE(keeps_start(R"({"type":"Replace","pattern":{"String":"a"},"content":""})", "ab"));
}

}  // namespace
}  // namespace dpo::text
