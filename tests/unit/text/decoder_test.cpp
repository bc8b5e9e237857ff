#include "text/decoder.h"

#include <gtest/gtest.h>

#include "tiny_tokenizers.h"

namespace dpo::text {
namespace {

std::string decoded(const char* json, std::vector<std::string> tokens) {
  const JsonFile file(json, "test");
  return read_decoder(file.root()).apply(std::move(tokens));
}

TEST(Decoder, ByteLevelJoinsBytesBeforeItReadsThem) {
  EXPECT_EQ(decoded(R"({"type":"ByteLevel"})", {"Ġa", "Ã", "©"}), " aé");
  EXPECT_EQ(decoded(R"({"type":"ByteLevel"})", {"Ã", "a"}), "\uFFFDa");
  EXPECT_EQ(decoded(R"({"type":"ByteLevel"})", {"漢 Ġ", "Ġ"}), "漢 Ġ ");  // other characters stay
}

TEST(Decoder, ByteFallback) {
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"a", "<0xC3>", "<0xA9>", "b"}), "aéb");
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"<0xC3>", "<0xC3>", "b"}), "\uFFFD\uFFFDb");
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"<0xZZ>", "<0x1>"}), "<0xZZ><0x1>");
}

TEST(Decoder, Metaspace) {
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always"})", {"▁a▁", "▁b"}),
            "a b");
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never"})", {"▁a", "▁b"}),
            " a b");
}

TEST(Decoder, StripReplaceAndSequence) {
  EXPECT_EQ(decoded(R"({"type":"Strip","content":" ","start":1,"stop":2})", {"  a   ", " b"}), " a b");
  EXPECT_EQ(
      decoded(R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
                        {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
              {"▁a", "▁b"}),
      "a b");
}

TEST(Decoder, WithoutOneTokensAreJoinedBySpaces) { EXPECT_EQ(Decoder().apply({"a", "b"}), "a b"); }

}  // namespace
}  // namespace dpo::text
