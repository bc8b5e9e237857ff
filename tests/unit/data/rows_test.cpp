#include "data/rows.h"

#include <fmt/format.h>
#include <zstd.h>

#include "data/bytes.h"
#include "unit/data/files.h"

namespace dpo::data {
namespace {

class Rows : public WithFolder {
 protected:
  // Returns the column "a" of each row, joined by '|'.
  std::string read(const std::filesystem::path& file, bool skip = false) {
    std::string all;
    BadRows bad(skip);
    read_rows(
        file,
        [&](Value&& row, std::int64_t) {
          const Value* const a = row.find("a");
          if (!a) throw BadRow("no a");
          all += a->text + "|";
          return true;
        },
        bad);
    skipped_ = bad.count();
    return all;
  }

  std::int64_t skipped_ = 0;
};

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

const std::string kLines = "{\"a\": \"x\"}\n\n{\"a\": \"\\u00e9\\n\", \"b\": 1}\r\n{\"a\": \"z\"}";
const std::string kWanted = "x|\u00e9\n|z|";

// The last byte of the file fills a buffer of exactly its size.
TEST_F(Rows, ACompressedFileEndsWithAnyBufferSize) {
  const std::string text(600, 'a');
  for (const std::string& content : {zstd(text), zstd(text) + zstd(text), gzipped(text)})
    for (const std::size_t piece : {1u, 100u, 600u, 601u}) {
      const auto reader = open_bytes(write("r.txt", content));
      std::string whole, buffer(piece, '\0');
      while (const std::size_t count = reader->read(buffer)) whole.append(buffer, 0, count);
      EXPECT_EQ(whole.size() % text.size(), 0u) << piece;
      EXPECT_FALSE(whole.empty());
    }
}

TEST_F(Rows, ComeFromLinesPlainAndCompressed) {
  EXPECT_EQ(read(write("r.jsonl", kLines)), kWanted);
  EXPECT_EQ(read(write("r.jsonl.gz", gzipped(kLines))), kWanted);
  EXPECT_EQ(read(write("r.jsonl.zst", zstd(kLines))), kWanted);
  EXPECT_EQ(read(write("r.json", kLines)), kWanted);
  EXPECT_EQ(read(write("r.jsonl", "\n [{\"a\": \"x\"},\n{\"a\": \"y\"}]")),
            "x|y|");  // a list, recognized by its bracket
  EXPECT_EQ(read(write("bom.jsonl", "\xef\xbb\xbf" + kLines)), kWanted);
  EXPECT_EQ(read(write("empty.jsonl", "")), "");
}

TEST_F(Rows, ComeFromSeveralGzipMembers) {
  EXPECT_EQ(read(write("r.jsonl.gz", gzipped("{\"a\": \"x\"}\n{\"a\"") + gzipped(": \"y\"}\n"))), "x|y|");
}

TEST_F(Rows, ComeFromArrays) {
  EXPECT_EQ(read(write("r.json", " \n[{\"a\": \"x\"},\n {\"a\": \"y\", \"c\": [1, {\"a\": \"no\"}]}]\n")),
            "x|y|");
  EXPECT_EQ(read(write("r.json", "[]")), "");
}

TEST_F(Rows, ComeFromCsv) {
  EXPECT_EQ(read(write("r.csv", "a,b\nx,1\n\"q \"\"q\"\", \n\",2\r\n,3\n")), "x|q \"q\", \n||");
  EXPECT_EQ(read(write("one.csv", "a\nlast")), "last|");
}

TEST_F(Rows, OfALongFileComeInOrder) {
  std::string lines;
  std::string wanted;
  for (int i = 0; i < 20'000; ++i) {
    lines += fmt::format("{{\"a\": \"{}\", \"text\": \"{}\"}}\n", i, std::string(500, 'x'));
    wanted += fmt::format("{}|", i);
  }
  EXPECT_EQ(read(write("r.jsonl.gz", gzipped(lines))), wanted);
  EXPECT_EQ(read(write("r.jsonl.zst", zstd(lines))), wanted);
}

TEST_F(Rows, StopWhenNoMoreAreWanted) {
  int taken = 0;
  BadRows bad(false);
  for (const char* name : {"r.jsonl", "r.json"}) {
    const bool array = std::string(name) == "r.json";
    const auto file = write(name, array ? "[{\"a\": 1}, {\"a\": 2}, nonsense" : "{\"a\": 1}\n{\"a\": 2}\n");
    taken = 0;
    read_rows(
        file, [&](Value&&, std::int64_t) { return ++taken < 2; }, bad);
    EXPECT_EQ(taken, 2);
  }
}

TEST_F(Rows, ThatAreBadAreSkippedAndCounted) {
  EXPECT_EQ(read(write("r.jsonl", "{\"a\": \"x\"}\nnonsense\n{\"b\": 1}\n[1]\n{\"a\": \"y\"}\n"), true),
            "x|y|");
  EXPECT_EQ(skipped_, 3);
  EXPECT_EQ(read(write("r.csv", "a,b\n1,2\n3\n4,5\n"), true), "1|4|");
  EXPECT_EQ(skipped_, 1);
}

struct BadFile {
  const char* name;
  std::string content;
  const char* message;
};

TEST_F(Rows, ThatCannotBeReadSayWhereAndWhy) {
  const std::string line = "{\"a\": \"x\"}\n";
  std::string cut = gzipped(kLines);
  cut.resize(cut.size() - 12);
  std::string spoilt = gzipped(std::string(5000, 'a') + kLines);
  spoilt[spoilt.size() / 2] ^= 0x55;
  std::string cut_zstd = zstd(kLines);
  cut_zstd.resize(cut_zstd.size() - 5);
  const std::string deep = "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const BadFile files[] = {
      {"r.jsonl", line + "{\"a\": \"x\"", "r.jsonl:2: not valid JSON"},
      {"r.jsonl", line + line + "nonsense\n", "r.jsonl:3: not valid JSON at column 1: found nonsense"},
      {"r.jsonl", line + "{'a': 1}\n", "r.jsonl:2: not valid JSON at column 2: found a single quote"},
      {"r.jsonl", line + "{\"a\": \"x\",}\n", "near '{\"a\": \"x\",}'"},
      {"r.jsonl", "{\n  \"a\": \"x\"\n}\n",
       "r.jsonl:1: not valid JSON at column 2: the line ends, expected a name in double quotes; near '{'; an "
       "object "
       "must be whole on its line, or the file a list: [{...}, ...]"},
      {"r.jsonl", "{\"a\": \"x\"}, \n",
       "found ',', expected the end of the line after the value; near '{\"a\": \"x\"}, '; remove the comma"},
      {"r.jsonl", "a,b\nx,y\n", "each line is an object {...}; a CSV file is named .csv"},
      {"r.jsonl", "<!DOCTYPE html>\n", "this looks like a web page in place of the file"},
      {"r.jsonl", line + "{\"a\": \"x\"} {\"a\": 1}\n", "r.jsonl:2: not valid JSON"},
      {"r.jsonl", line + "{\"a\": NaN}\n", "r.jsonl:2: not valid JSON"},
      {"r.jsonl", line + "{\"a\": \"\xff\"}\n",
       "r.jsonl:2: not valid JSON at column 8: the byte 0xff is not UTF-8; save the file as UTF-8; "
       "near '{\"a\": \"\uFFFD\"}' (data.on_error=skip skips such rows)"},
      {"r.jsonl", line + "{\"a\": \"\xed\xa0\x80\"}\n", "r.jsonl:2: not valid JSON"},
      {"r.jsonl", line + "{\"a\": \"\\ud800\"}\n", "r.jsonl:2: not valid JSON"},
      {"r.jsonl", line + std::string("{\"a\": \"\0\"}\n", 11), "r.jsonl:2: not valid JSON"},
      {"r.jsonl", "\n\n" + line + "\n3\n", "r.jsonl:5: got a number, expected an object"},
      {"r.jsonl", line + "[{\"a\": \"x\"}]\n", "r.jsonl:2: got a list, expected an object"},
      {"r.jsonl", "\"a\"\n", "r.jsonl:1: got a string, expected an object"},
      {"r.jsonl", "null\n", "r.jsonl:1: got null, expected an object"},
      {"r.jsonl", line + "{\"b\": 1}\n", "r.jsonl:2: no a (data.on_error=skip skips such rows)"},
      {"r.jsonl", deep + "\n", "r.jsonl:1: nested more than 64 levels deep"},
      {"r.jsonl.gz", gzipped(line + "nonsense"), "r.jsonl.gz:2: not valid JSON"},
      {"r.jsonl.gz", cut, "r.jsonl.gz: the compressed file is truncated"},
      {"r.jsonl.gz", spoilt, "r.jsonl.gz: the compressed file is damaged"},
      {"r.jsonl.gz", gzipped(line) + "tail", "r.jsonl.gz: the compressed file is damaged"},
      {"r.jsonl.gz", line, "r.jsonl.gz: is named .gz or .zst but is not compressed"},
      {"r.jsonl.gz", "", "r.jsonl.gz: is empty"},
      {"r.jsonl.zst", cut_zstd, "r.jsonl.zst: the compressed file is truncated"},
      {"r.jsonl.zst", zstd(line) + "tail", "r.jsonl.zst: the compressed file is damaged"},
      {"r.jsonl.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
       "this is a Git LFS pointer"},
      {"r.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
       "r.parquet: this is a Git LFS pointer"},
      {"r.parquet", "PAR1 nonsense", "r.parquet: "},
      {"r.parquet", line,
       "r.parquet: is not a Parquet file (it does not begin with PAR1); rename it to its format"},
      {"r.jsonl", "PAR1 nonsense", "r.jsonl: is a Parquet file; name it .parquet"},
      {"r.jsonl", "PK\x03\x04 nonsense", "r.jsonl: is a zip archive or a spreadsheet"},
      {"r.csv", "BZh9 nonsense", "r.csv: is compressed with bzip2 or xz"},
      {"r.json",
       std::string("\xfd"
                   "7zXZ\0",
                   6),
       "r.json: is compressed with bzip2 or xz"},
      {"r.csv",
       "\xff\xfe"
       "a",
       "r.csv: is UTF-16 text, expected UTF-8"},
      {"r.jsonl", std::string("{\0\"\0a\0", 6), "r.jsonl: is UTF-16 text"},
      {"r.jsonl", std::string("\0{\0\"\0a", 6), "r.jsonl: is UTF-16 text"},
      {"r.csv", "{\"a\": \"x\", \"b\": \"y\"}\n", "r.csv: the first line is JSON, expected column names"},
      {"r.csv", "a;b\n1;2\n", "r.csv: the first line has one column, 'a;b', expected names with commas"},
      {"r.csv", "a\tb\n", "r.csv: the first line has one column, 'a\\x09b'"},
      {"r", "x", "r: the name does not say what the file is, expected one of .jsonl"},
      {"r.json", "[{\"a\": \"x\"},\n{\"a\": \"y\"}\n",
       "r.json:3: not valid JSON at column 1: the file ends, expected a comma or ']'; is it complete?"},
      {"r.json", "[{\"a\": \"x\"}\n {\"a\": \"y\"}]",
       "r.json:2: not valid JSON at column 2: found '{', expected a comma or ']'; near ' {\"a\": \"y\"}]'"},
      {"r.json", "[{\"a\": \"\u00e9\"}, {\"a\": True}]",
       "r.json:1: not valid JSON at column 20: found True, expected a value; write true or false; near "
       "'[{\"a\": \"\u00e9\"}, {\"a\": True}]'"},
      {"r.json", "[{\"a\": True}]", "r.json:1: not valid JSON at column 8: found True"},
      {"r.json", "[{\"a\": \"" + std::string(500, 'x') + "\"},\n\n{\"a\": \"y\",\n \"b\": }, {\"a\": 1}]",
       "r.json:4: not valid JSON at column 7: found '}', expected a value; near ' \"b\": }, {\"a\": 1}]'"},
      {"r.json", "[{\"a\": \"x\"},\n 7]", "r.json:2: got a number, expected an object"},
      {"r.json", "[" + deep + "]", "r.json:1: nested more than 64 levels deep"},
      {"r.json", "[{\"a\": \"x\"}] x",
       "r.json:1: not valid JSON at column 14: found x, expected the end of the file"},
      {"r.csv", "", "r.csv: is empty, expected a first line with column names"},
      {"r.csv", "a,b\n1,2\n3\n", "r.csv:3: got 1 fields, expected 2 as in the first line"},
      {"r.csv", "a,b\n1,2,3\n", "r.csv:2: got 3 fields, expected 2 as in the first line"},
      {"r.csv", "a\n\"x\n\n", "r.csv:2: a quoted field is not closed"},
      {"r.csv", "a\n\"x\"y\n", "r.csv:2: a quoted field is followed by 'y'"},
      {"r.csv", "a\n\xff\n", "r.csv:2: invalid UTF-8"},
      {"r.txt", "x", "r.txt: unknown file type '.txt', expected one of .jsonl"},
  };
  for (const BadFile& file : files) {
    const std::string problem = problem_of([&] { read(write(file.name, file.content)); });
    EXPECT_NE(problem.find(file.message), std::string::npos) << file.message << "\n" << problem;
  }
  EXPECT_NE(
      problem_of([&] { read(folder_ / "absent.jsonl"); }).find("absent.jsonl: cannot be read: No such file"),
      std::string::npos);
  std::filesystem::create_directories(folder_ / "d.jsonl");
  EXPECT_NE(problem_of([&] { read(folder_ / "d.jsonl"); }).find("is a folder"), std::string::npos);
}

// The parser of lists reads one byte beyond a number.
TEST_F(Rows, OfAListAreCountedToTheMistake) {
  const auto file = write("r.json", "[{\"a\": \"x\"}, 7, {\"a\": y}]");
  EXPECT_NE(
      problem_of([&] { read(file, true); }).find("r.json:1: not valid JSON at column 23: found y, expected"),
      std::string::npos);
}

TEST_F(Rows, OfAnySizeDoNotFillTheMemory) {
  // The file has one line of 80 MB, compressed to 80 kB.
  const auto bomb = write("r.jsonl.gz", gzipped("{\"a\": \"" + std::string(80u << 20, 'x')));
  const std::string problem = problem_of([&] { read(bomb); });
  EXPECT_NE(problem.find("r.jsonl.gz: decompresses to more than 300 times its size"), std::string::npos)
      << problem;
  const auto line = write("r.jsonl", "{\"a\": \"" + std::string(kLongestRow, 'x') + "\"}\n{\"a\": \"y\"}\n");
  EXPECT_NE(problem_of([&] { read(line); }).find("r.jsonl:1: a line longer than"), std::string::npos);
  EXPECT_EQ(read(line, true), "y|");
  const auto array = write("r.json", "[{\"a\": \"" + std::string(kLongestRow, 'x') + "\"}]");
  EXPECT_NE(problem_of([&] { read(array); }).find("r.json:1: a row longer than"), std::string::npos);
  const auto csv = write("r.csv", "a\n\"" + std::string(kLongestRow + 1, 'x'));
  EXPECT_NE(problem_of([&] { read(csv); }).find("r.csv:2: a record longer than"), std::string::npos);
}

}  // namespace
}  // namespace dpo::data
