#include "hub/upload_messages.h"

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hub/content_hash.h"

namespace dpo::hub {
namespace {

using nlohmann::json;

const std::string kSum(64, 'b');

std::string batch_of(const std::string& rest) {
  return R"({"transfer": "multipart", "objects": [{"oid": ")" + kSum + R"(", "size": 10)" + rest + "}]}";
}

UploadTarget target_in(const std::string& rest) {
  return parse_batch(batch_of(rest), {{kSum, 10}}, "here").targets.at(kSum);
}

TEST(Preupload, AnnouncesFilesWithTheirFirstBytes) {
  const json sent = json::parse(print_preupload({{"a/b", 3, "abc"}, {"c", 1, "\xff"}, {"empty", 0, ""}}));
  EXPECT_EQ(sent["files"][0], (json{{"path", "a/b"}, {"size", 3}, {"sample", "YWJj"}}));
  EXPECT_EQ(sent["files"][1]["sample"], "/w==");
  EXPECT_EQ(sent["files"][2]["sample"], "");
}

TEST(Preupload, SaysWhereTheHubWantsThem) {
  const auto replies = parse_preupload(
      R"({"files": [{"path": "a", "uploadMode": "lfs", "shouldIgnore": false, "oid": "x"},
                    {"path": "b", "uploadMode": "regular", "shouldIgnore": true, "oid": null}]})",
      "here");
  EXPECT_TRUE(replies.at("a").large);
  EXPECT_FALSE(replies.at("a").ignored);
  EXPECT_EQ(replies.at("a").hash, "x");
  EXPECT_FALSE(replies.at("b").large);
  EXPECT_TRUE(replies.at("b").ignored);
  EXPECT_EQ(replies.at("b").hash, "");
  for (const char* text : {"", "[]", "{}", R"({"files": 1})", R"({"files": [1]})",
                           R"({"files": [{"path": "a", "uploadMode": "other"}]})"})
    EXPECT_THROW(parse_preupload(text, "here"), UserError) << text;
}

TEST(Batch, AsksForTheProtocolsThatDpoKnows) {
  const json sent = json::parse(print_batch({{kSum, 10}}, "main"));
  EXPECT_EQ(sent["transfers"], (json{"basic", "multipart"}));
  EXPECT_EQ(sent["objects"], (json::array({{{"oid", kSum}, {"size", 10}}})));
  EXPECT_EQ(sent["ref"]["name"], "main");
}

TEST(Batch, DescribesUploads) {
  EXPECT_TRUE(target_in("").present);
  EXPECT_EQ(target_in(R"(, "error": {"code": 422, "message": "no"})").error, "no");
  const UploadTarget whole = target_in(
      R"(, "actions": {"upload": {"href": "http://s/1", "header": {"X-A": "b"}},
                       "verify": {"href": "http://h/v", "header": {"X-C": "d"}}})");
  EXPECT_FALSE(whole.present);
  EXPECT_EQ(whole.url, "http://s/1");
  EXPECT_EQ(whole.part_size, 0);
  EXPECT_EQ(whole.headers.at("X-A"), "b");
  EXPECT_EQ(whole.verify_url, "http://h/v");
  EXPECT_EQ(whole.verify_headers.at("X-C"), "d");
}

TEST(Batch, DescribesPartsInTheOrderOfTheirNumbers) {
  for (const char* size : {"\"4\"", "4"}) {
    const UploadTarget target = target_in(
        R"(, "actions": {"upload": {"href": "http://h/done", "header": {"10": "http://s/c", "2": "http://s/b",
                         "01": "http://s/a", "chunk_size": )" +
        std::string(size) + "}}}");
    EXPECT_EQ(target.part_size, 4);
    EXPECT_EQ(target.part_urls, (std::vector<std::string>{"http://s/a", "http://s/b", "http://s/c"}));
    EXPECT_TRUE(target.headers.empty());
  }
}

TEST(Batch, RejectsPartsThatAreNotTheWhole) {
  for (const char* header : {R"({"chunk_size": "4", "1": "http://s/a"})", R"({"chunk_size": "0"})",
                             R"({"chunk_size": "x", "1": "http://s/a"})", R"({"chunk_size": "-4"})"})
    EXPECT_THROW(target_in(R"(, "actions": {"upload": {"href": "http://h/done", "header": )" +
                           std::string(header) + "}}"),
                 UserError)
        << header;
  EXPECT_THROW(target_in(R"(, "actions": {"upload": {}})"), UserError);
  EXPECT_THROW(parse_batch("<html>", {}, "here"), UserError);
}

TEST(Batch, NamesAnotherProtocol) {
  EXPECT_EQ(parse_batch(R"({"transfer": "xet", "objects": []})", {}, "here").transfer, "xet");
  EXPECT_EQ(parse_batch(R"({"objects": []})", {}, "here").transfer, "basic");
}

TEST(Completion, NumbersThePartsFromOne) {
  EXPECT_EQ(
      json::parse(print_completion(kSum, {"\"x\"", "\"y\""})),
      (json{{"oid", kSum},
            {"parts", {{{"partNumber", 1}, {"etag", "\"x\""}}, {{"partNumber", 2}, {"etag", "\"y\""}}}}}));
}

TEST(Repositories, ArePrivateOnlyIfTheHubSaysSo) {
  EXPECT_EQ(json::parse(print_new_repository("me", "it", true))["visibility"], "private");
  EXPECT_FALSE(json::parse(print_new_repository("me", "it", false)).contains("visibility"));
  EXPECT_EQ(visibility_in(R"({"private": true})"), "private");
  EXPECT_EQ(visibility_in(R"({"private": false})"), "public");
  for (const char* answer : {"{}", R"({"private": "yes"})", "[]", "<html>", ""})
    EXPECT_EQ(visibility_in(answer), "") << answer;
}

TEST(Commits, AreLinesOfJson) {
  std::vector<CommitFile> files(2);
  files[0].path = "a";
  files[0].content = "abc";
  files[1].path = "w";
  files[1].large = {kSum, 10};
  const std::string body = print_commit("it", "before", files, {"old"});
  std::vector<json> lines;
  std::istringstream stream(body);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            (json{{"key", "header"},
                  {"value", {{"summary", "it"}, {"description", ""}, {"parentCommit", "before"}}}}));
  EXPECT_EQ(lines[1]["value"], (json{{"path", "a"}, {"content", "YWJj"}, {"encoding", "base64"}}));
  EXPECT_EQ(lines[2], (json{{"key", "lfsFile"},
                            {"value", {{"path", "w"}, {"algo", "sha256"}, {"oid", kSum}, {"size", 10}}}}));
  EXPECT_EQ(lines[3], (json{{"key", "deletedFile"}, {"value", {{"path", "old"}}}}));
}

TEST(Commits, HaveAName) {
  const std::string id(40, 'a');
  EXPECT_EQ(parse_new_commit(R"({"commitOid": ")" + id + R"(", "commitUrl": "u"})", "here").id, id);
  EXPECT_THROW(parse_new_commit(R"({"commitOid": "x"})", "here"), UserError);
}

TEST(Accounts, HaveARoleAndOrganizations) {
  const Account account = parse_account(
      R"({"name": "alice", "orgs": [{"name": "org"}, 1], "auth": {"accessToken": {"role": "read"}}})");
  EXPECT_EQ(account.name, "alice");
  EXPECT_EQ(account.role, "read");
  EXPECT_EQ(account.organizations, std::vector<std::string>{"org"});
  EXPECT_EQ(parse_account("<html>").name, "");
  EXPECT_EQ(parse_account(R"({"auth": {"accessToken": {"role": 1}}, "orgs": {}})").role, "");
}

TEST(GitSha1, IsThatOfGit) {
  EXPECT_EQ(git_sha1(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(git_sha1("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

}  // namespace
}  // namespace dpo::hub
