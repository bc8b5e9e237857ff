#include "hub/answers.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::hub {
namespace {

const std::string kSha1(40, 'a'), kSha256(64, 'b');

std::string problem_of(const auto& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Answers, NameTheCommit) {
  EXPECT_EQ(parse_commit(R"({"id": "a/b", "sha": ")" + kSha1 + "\"}", "here"), kSha1);
  for (const char* text : {"", "[]", "{}", R"({"sha": 1})", R"({"sha": "main"})", "<html>"})
    EXPECT_NE(
        problem_of([&] { parse_commit(text, "here"); }).find("here: not a response of a Hugging Face hub"),
        std::string::npos)
        << text;
}

TEST(Answers, ListFiles) {
  const auto files =
      parse_tree(R"([{"type": "directory", "path": "d", "oid": "x", "size": 0},
      {"type": "file", "path": "d/a.json", "size": 3, "oid": ")" +
                     kSha1 + R"("},
      {"type": "file", "path": "w.safetensors", "size": 9, "oid": ")" +
                     kSha1 + R"(", "lfs": {"oid": ")" + kSha256 + R"(", "size": 9, "pointerSize": 1}}])",
                 "here");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "d/a.json");
  EXPECT_EQ(files[0].hash(), kSha1);
  EXPECT_EQ(files[1].size, 9);
  EXPECT_EQ(files[1].hash(), kSha256);
  const auto again = parse_cached_tree(print_cached_tree(files));
  ASSERT_TRUE(again);
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ((*again)[1].hash(), kSha256);
  EXPECT_EQ((*again)[1].size, 9);
}

TEST(Answers, WithPathsOutsideOfTheFolderAreRejected) {
  for (const std::string path : {"../a", "/etc/passwd", "a/../../b", "", "a//b", "a/"}) {
    const std::string text =
        R"([{"type": "file", "path": ")" + path + R"(", "size": 3, "oid": ")" + kSha1 + "\"}]";
    EXPECT_NE(problem_of([&] { parse_tree(text, "here"); }), "") << path;
    const std::string cached =
        R"({"format_version": 1, "files": {")" + path + R"(": {"size": 3, "blob_id": ")" + kSha1 + "\"}}}";
    EXPECT_FALSE(parse_cached_tree(cached)) << path;
  }
  EXPECT_FALSE(parse_cached_tree(R"({"format_version": 2, "files": {}})"));
}

TEST(Answers, HaveTagsThatBecomeFileNames) {
  EXPECT_EQ(normalize_etag("\"abc-1\""), "abc-1");
  EXPECT_EQ(normalize_etag("W/\"abc\""), "abc");
  EXPECT_EQ(normalize_etag("\"../x\""), "");
  EXPECT_EQ(normalize_etag(""), "");
}

TEST(Answers, LeadToTheNextPage) {
  EXPECT_EQ(next_page("<https://x/y?cursor=a>; rel=\"next\""), "https://x/y?cursor=a");
  EXPECT_EQ(next_page("<https://x/1>; rel=\"prev\", <https://x/2>; rel=\"next\""), "https://x/2");
  EXPECT_EQ(next_page("<https://x/1>; rel=\"prev\""), "");
  EXPECT_EQ(next_page(""), "");
}

TEST(Addresses, HaveAnOrigin) {
  EXPECT_EQ(origin_of("https://Huggingface.co/a/b"), "https://huggingface.co");
  EXPECT_EQ(origin_of("http://127.0.0.1:80?x"), "http://127.0.0.1:80");
  EXPECT_EQ(origin_of("https://huggingface.co@evil.com/a"), "https://evil.com");
  EXPECT_EQ(origin_of("nonsense"), "");
  EXPECT_EQ(resolve_redirect("https://a/b/c", "/d"), "https://a/d");
  EXPECT_EQ(resolve_redirect("https://a/b/c", "d"), "https://a/b/d");
  EXPECT_EQ(resolve_redirect("https://a/b/c", "//x/d"), "https://x/d");
  EXPECT_EQ(resolve_redirect("https://a/b/c", "http://x/d"), "http://x/d");
  EXPECT_EQ(resolve_redirect("https://a/b/c", "/d?from=http://x"), "https://a/d?from=http://x");
  EXPECT_EQ(shown_url("https://user:secret@A/b/c?signature=1"), "https://a/b/c");
  EXPECT_EQ(shown_url("https://user:secret@a"), "https://a");
  EXPECT_EQ(escape("refs/pr/1 ä", false), "refs%2Fpr%2F1%20%C3%A4");
  EXPECT_EQ(escape("a/b c", true), "a/b%20c");
}

TEST(Retries, WaitLongerAndLonger) {
  EXPECT_EQ(seconds_before_retry(1, nullptr), 0.5);
  EXPECT_EQ(seconds_before_retry(4, nullptr), 4);
  EXPECT_FALSE(seconds_before_retry(5, nullptr));
}

TEST(Retries, DoWhatTheServerAsks) {
  http::Answer answer{429, {{"retry-after", "17"}}, ""};
  EXPECT_EQ(seconds_before_retry(1, &answer), 17);
  answer.headers = {{"ratelimit", "\"api\";r=0;t=55"}};
  EXPECT_EQ(seconds_before_retry(1, &answer), 55);
  answer.headers = {{"ratelimit", "\"api\";r=3;t=55"}};
  EXPECT_EQ(seconds_before_retry(1, &answer), 0.5);
  answer.headers = {{"retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"}};
  EXPECT_EQ(seconds_before_retry(1, &answer), 0.5);
  answer.headers = {{"retry-after", "86400"}};
  EXPECT_FALSE(seconds_before_retry(1, &answer));
}

TEST(Retries, AreForFailuresThatPass) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    const http::Answer answer{status, {}, ""};
    EXPECT_TRUE(seconds_before_retry(1, &answer)) << status;
  }
  for (const int status : {400, 401, 403, 404, 416}) {
    const http::Answer answer{status, {}, ""};
    EXPECT_FALSE(seconds_before_retry(1, &answer)) << status;
  }
}

}  // namespace
}  // namespace dpo::hub
