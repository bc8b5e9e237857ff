// One input is an answer of the hub: the commit of a revision, a list of files, such a list in the cache, or
// its reply to an upload. Only a UserError may escape, and no accepted file leaves its folder.
#include <filesystem>
#include <string>

#include "base/error.h"
#include "hub/answers.h"
#include "hub/upload_messages.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::hub_answers {
namespace {

void check_files(const std::vector<dpo::hub::HubFile>& files) {
  for (const dpo::hub::HubFile& file : files) {
    const std::string target = (std::filesystem::path("/cache/folder") / file.path).lexically_normal();
    if (!target.starts_with("/cache/folder/") || target.back() == '/') fail("a file outside of the folder");
    if (file.size < 0) fail("a negative size");
    if (file.hash().size() != 40 && file.hash().size() != 64) fail("a hash of another kind");
  }
}

const std::string kSha1(40, 'a'), kSha256(64, 'b');
constexpr std::int64_t kSize = 12;

void check_targets(const dpo::hub::UploadTargets& found) {
  for (const auto& [hash, target] : found.targets)
    if (target.part_size < 0 ||
        (target.part_size > 0 &&
         (kSize - 1) / target.part_size + 1 != static_cast<std::int64_t>(target.part_urls.size())))
      fail("parts that are not the whole");
}

bool is_of_an_upload(std::string_view input) {
  dpo::hub::parse_account(input);
  accepts([&] { dpo::hub::parse_new_commit(input, "input"); });
  const bool replies = accepts([&] { dpo::hub::parse_preupload(input, "input"); });
  return accepts([&] {
           check_targets(dpo::hub::parse_batch(input, {{kSha256, kSize}}, "input"));
         }) ||
         replies;
}

bool try_input(std::string_view input) {
  accepts([&] { dpo::hub::parse_commit(input, "input"); });
  if (is_of_an_upload(input)) return true;
  if (const auto cached = dpo::hub::parse_cached_tree(input)) {
    check_files(*cached);
    const auto again = dpo::hub::parse_cached_tree(dpo::hub::print_cached_tree(*cached));
    if (!again || again->size() != cached->size()) fail("a list that cannot be read again");
    return true;
  }
  return accepts([&] { check_files(dpo::hub::parse_tree(input, "input")); });
}

const std::string kSeeds[] = {
    R"({"id": "a/b", "sha": ")" + kSha1 + "\"}",
    R"([{"type": "directory", "path": "d", "oid": ")" + kSha1 + R"(", "size": 0},
        {"type": "file", "path": "d/a.json", "oid": ")" +
        kSha1 + R"(", "size": 12}])",
    R"([{"type": "file", "path": "w.safetensors", "oid": ")" + kSha1 + R"(", "size": 12,
         "lfs": {"oid": ")" +
        kSha256 + R"(", "size": 12, "pointerSize": 130}, "xetHash": ")" + kSha256 + "\"}]",
    R"({"format_version": 1, "files": {"a": {"size": 1, "blob_id": ")" + kSha1 + R"("}, "b": {"size": 1,
        "blob_id": ")" +
        kSha1 + R"(", "lfs_sha256": ")" + kSha256 + R"(", "lfs_size": 3}}})",
    R"({"files": [{"path": "a", "uploadMode": "lfs", "shouldIgnore": false, "oid": ")" + kSha256 + "\"}]}",
    R"({"transfer": "multipart", "objects": [{"oid": ")" + kSha256 + R"(", "size": 12, "actions": {
        "upload": {"href": "http://x/", "header": {"chunk_size": "8", "1": "http://a", "2": "http://b"}},
        "verify": {"href": "http://v/", "header": {"a": 1}}}}]})",
    R"({"commitOid": ")" + kSha1 + R"(", "commitUrl": "u"})",
    R"({"name": "a", "orgs": [{"name": "b"}], "auth": {"accessToken": {"role": "read"}}})",
};

const Tokens kTokens =
    json_tokens({"..", "../", "/", "//", "\"size\":", "\"path\":", "\"a\"", "\"/etc/passwd\"", "\"../x\"",
                 "\"\"", "\"file\"", kSha1, kSha256, "99999999999999999999", "\"lfs\": {}"});

std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  mutator.mutate(text, kTokens, 5);
  return text;
}

const Registered kTarget({"hub_answers", make, try_input});

}  // namespace
}  // namespace fuzz::hub_answers
