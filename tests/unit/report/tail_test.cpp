#include "report/tail.h"

#include <sys/stat.h>

#include "unit/serve/run_folder.h"

namespace dpo::report {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using Tailing = serve::RunFolder;

TEST_F(Tailing, LinesAreReadOnceAndWhole) {
  Tail tail(folder_ / "file");
  EXPECT_TRUE(tail.next().lines.empty());  // it does not exist yet
  write("file", "one\ntwo\nthr");
  EXPECT_EQ(tail.next().lines, (Lines{"one", "two"}));
  EXPECT_TRUE(tail.next().lines.empty());
  add("file", "ee");
  EXPECT_TRUE(tail.next().lines.empty());
  add("file", "\n\nfive\n");
  EXPECT_EQ(tail.next().lines, (Lines{"three", "", "five"}));
}

TEST_F(Tailing, AShortenedFileIsReadAgain) {
  write("file", "one\ntwo\nthree\n");
  Tail tail(folder_ / "file");
  EXPECT_FALSE(tail.next().restarted);
  write("file", "one\n");
  const Tail::Part part = tail.next();
  EXPECT_TRUE(part.restarted);
  EXPECT_EQ(part.lines, (Lines{"one"}));
}

TEST_F(Tailing, AReplacedFileIsReadAgainEvenIfItIsLonger) {
  write("file", "one\ntwo\n");
  Tail tail(folder_ / "file");
  tail.next();
  write("new", "one\nTWO\nthree\n");
  fs::rename(folder_ / "new", folder_ / "file");
  Tail::Part part = tail.next();
  EXPECT_TRUE(part.restarted);
  EXPECT_EQ(part.lines, (Lines{"one", "TWO", "three"}));
  write("file", "1ne\nTWO\nthree\nfour\n");  // the same file, written again
  part = tail.next();
  EXPECT_TRUE(part.restarted);
  EXPECT_EQ(part.lines.size(), 4u);
}

TEST_F(Tailing, OnlyTheEndCanBeRead) {
  write("file", "one\ntwo\nthree\nfour\n");
  Tail tail(folder_ / "file", 8);  // "ee" and "four"
  EXPECT_EQ(tail.next().lines, (Lines{"four"}));
  add("file", "five\n");
  EXPECT_EQ(tail.next().lines, (Lines{"five"}));
  EXPECT_EQ(Tail(folder_ / "file", 1000).next().lines.size(), 5u);
}

TEST_F(Tailing, ALargeFileIsReadInPieces) {
  const std::string line(999, 'x');
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += line + "\n";
  write("file", text);
  Tail tail(folder_ / "file");
  Tail::Part part = tail.next();
  EXPECT_TRUE(part.more);
  std::size_t lines = part.lines.size();
  for (int calls = 0; part.more && calls < 100; ++calls) {
    part = tail.next();
    EXPECT_FALSE(part.restarted);
    for (const std::string& each : part.lines) EXPECT_EQ(each, line);
    lines += part.lines.size();
  }
  EXPECT_EQ(lines, 10'000u);
}

TEST_F(Tailing, ALineWithoutEndDoesNotFillTheMemory) {
  write("file", std::string(20u << 20, 'x'));
  Tail tail(folder_ / "file");
  for (Tail::Part part{.more = true}; part.more;) {
    part = tail.next();
    EXPECT_TRUE(part.lines.empty());
  }
  add("file", "rest of it\nnext\n");
  EXPECT_EQ(tail.next().lines, (Lines{"next"}));
}

TEST_F(Tailing, OtherThanFilesHaveNoLines) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(Tail(folder_ / "pipe").next().lines.empty());
  EXPECT_TRUE(Tail(folder_).next().lines.empty());
}

}  // namespace
}  // namespace dpo::report
