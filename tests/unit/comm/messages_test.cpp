#include "comm/messages.h"

#include <gtest/gtest.h>

namespace dpo::comm {
namespace {

TEST(Messages, AreReadAsTheyWereWritten) {
  const Loss loss{3, "host a", 123, "the \"data\"\n\x01 \xff ends", true, 2};
  MessageReader reader;
  const std::string lines = line_of({.kind = Message::Kind::hello, .word = "w", .rank = 7}) +
                            line_of({.kind = Message::Kind::alive}) +
                            line_of({.kind = Message::Kind::failed, .loss = loss});
  std::vector<Message> read;
  for (const char byte : lines)
    for (const Message& message : reader.add({&byte, 1})) read.push_back(message);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].word, "w");
  EXPECT_EQ(read[0].rank, 7);
  EXPECT_EQ(read[1].kind, Message::Kind::alive);
  EXPECT_EQ(read[2].kind, Message::Kind::failed);
  EXPECT_EQ(read[2].loss.what, "the \"data\"\n\x01 \uFFFD ends");
  EXPECT_EQ(read[2].loss.pid, 123);
  EXPECT_TRUE(read[2].loss.spoke);
  EXPECT_EQ(reader.add(lines).size(), 3u);
}

TEST(Messages, AreNothingElse) {
  for (const char* line :
       {"", "x", "[]", "{}", R"({"kind": 1})", R"({"kind": "other"})", R"({"kind": "hello", "rank": 1})",
        R"({"kind": "hello", "word": 5, "rank": 1})", R"({"kind": "hello", "word": "w", "rank": "1"})",
        R"({"kind": "hello", "word": "w", "rank": 1e9})",
        R"({"kind": "hello", "word": "w", "rank": 4294967297})", R"({"kind": "welcome", "word": null})",
        R"({"kind": "loss", "rank": 1})",
        R"({"kind": "loss", "rank": 1, "host": "h", "pid": 1, "what": [], "spoke": true, "status": 2})",
        R"({"kind": "loss", "rank": 1, "host": "h", "pid": 1, "what": "", "spoke": 1, "status": 2})"})
    EXPECT_FALSE(parse_message(line)) << line;
}

TEST(Messages, FromAStrangerDoNotFillTheMemory) {
  MessageReader reader;
  const std::string piece(1 << 16, 'x');
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(reader.add(piece).empty());
  EXPECT_TRUE(reader.add("\n").empty());
  EXPECT_EQ(reader.add(line_of({.kind = Message::Kind::goodbye})).size(), 1u);
}

}  // namespace
}  // namespace dpo::comm
