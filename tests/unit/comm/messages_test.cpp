#include "comm/messages.h"

#include <gtest/gtest.h>

namespace dpo::comm {
namespace {

TEST(Messages, AreReadAsTheyWereWritten) {
  const RankFailure failure{3, "host a", 123, "the \"data\"\n\x01 \xff ends", true, 2};
  MessageReader reader;
  const std::string lines = line_of({.kind = Message::Kind::hello, .rank = 7, .nonce = "w"}) +
                            line_of({.kind = Message::Kind::heartbeat, .progress = {1ull << 63, 5}}) +
                            line_of({.kind = Message::Kind::failed, .failure = failure}) +
                            line_of({.kind = Message::Kind::challenge, .nonce = "n", .proof = "p"}) +
                            line_of({.kind = Message::Kind::answer, .proof = "q"}) +
                            line_of({.kind = Message::Kind::welcome});
  std::vector<Message> read;
  for (const char byte : lines)
    for (const Message& message : reader.add({&byte, 1})) read.push_back(message);
  ASSERT_EQ(read.size(), 6u);
  EXPECT_EQ(read[0].nonce, "w");
  EXPECT_EQ(read[0].rank, 7);
  EXPECT_EQ(read[1].kind, Message::Kind::heartbeat);
  EXPECT_EQ(read[1].progress, (Progress{1ull << 63, 5}));
  EXPECT_EQ(read[2].kind, Message::Kind::failed);
  EXPECT_EQ(read[2].failure.what, "the \"data\"\n\x01 \uFFFD ends");
  EXPECT_EQ(read[2].failure.pid, 123);
  EXPECT_TRUE(read[2].failure.reported);
  EXPECT_EQ(read[3].nonce + read[3].proof, "np");
  EXPECT_EQ(read[4].kind, Message::Kind::answer);
  EXPECT_EQ(read[4].proof, "q");
  EXPECT_EQ(read[5].kind, Message::Kind::welcome);
  EXPECT_EQ(reader.add(lines).size(), 6u);
}

TEST(Messages, DescribeAFailure) {
  EXPECT_EQ(describe({1, "a", 7, "out of memory", true, 2}), "rank 1 (host a, pid 7) failed: out of memory");
  EXPECT_EQ(describe({1, "a", 7, "exited", false, 2}), "rank 1 (host a, pid 7) exited");
  EXPECT_EQ(describe({1, "a", 7, "stopped by a signal", true, 143}),
            "rank 1 (host a, pid 7) was stopped by a signal");
}

TEST(Messages, InvalidLinesAreIgnored) {
  for (const char* line :
       {"", "x", "[]", "{}", R"({"kind": 1})", R"({"kind": "other"})", R"({"kind": "hello", "rank": 1})",
        R"({"kind": "hello", "nonce": 5, "rank": 1})", R"({"kind": "hello", "nonce": "w", "rank": "1"})",
        R"({"kind": "hello", "nonce": "w", "rank": 1e9})",
        R"({"kind": "hello", "nonce": "w", "rank": 4294967297})", R"({"kind": "answer", "proof": null})",
        R"({"kind": "challenge", "nonce": "n"})", R"({"kind": "heartbeat", "parts": 1})",
        R"({"kind": "heartbeat", "parts": -1, "collectives": 1})", R"({"kind": "abort", "rank": 1})",
        R"({"kind": "abort", "rank": 1, "host": "h", "pid": 1, "what": [], "reported": true, "status": 2})",
        R"({"kind": "abort", "rank": 1, "host": "h", "pid": 1, "what": "", "reported": 1, "status": 2})"})
    EXPECT_FALSE(parse_message(line)) << line;
}

TEST(Messages, EndlessLinesDoNotFillTheMemory) {
  MessageReader reader;
  const std::string piece(1 << 16, 'x');
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(reader.add(piece).empty());
  EXPECT_TRUE(reader.add("\n").empty());
  EXPECT_EQ(reader.add(line_of({.kind = Message::Kind::goodbye})).size(), 1u);
}

}  // namespace
}  // namespace dpo::comm
