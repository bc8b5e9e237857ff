// One input is an answer of the hub: the commit of a revision, a list of files, or such a list in the cache.
// Only a UserError may escape, and no file that is accepted leaves its folder.
#include <filesystem>
#include <string>

#include "base/error.h"
#include "hub/answers.h"
#include "target.h"

namespace fuzz::hub_answers {
namespace {

void check_files(const std::vector<dpo::hub::HubFile>& files) {
  for (const dpo::hub::HubFile& file : files) {
    const std::string place = (std::filesystem::path("/cache/folder") / file.path).lexically_normal();
    if (!place.starts_with("/cache/folder/") || place.back() == '/') fail("a file outside of the folder");
    if (file.size < 0) fail("a negative size");
    if (file.hash().size() != 40 && file.hash().size() != 64) fail("a hash of another kind");
  }
}

bool try_input(std::string_view input) {
  accepts([&] { dpo::hub::parse_commit(input, "input"); });
  if (const auto cached = dpo::hub::parse_cached_tree(input)) {
    check_files(*cached);
    const auto again = dpo::hub::parse_cached_tree(dpo::hub::print_cached_tree(*cached));
    if (!again || again->size() != cached->size()) fail("a list that cannot be read again");
    return true;
  }
  return accepts([&] { check_files(dpo::hub::parse_tree(input, "input")); });
}

const std::string kSha1(40, 'a'), kSha256(64, 'b');

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
};

const std::string kTokens[] = {"{",
                               "}",
                               "[",
                               "]",
                               ",",
                               ":",
                               "\"",
                               "\\",
                               "..",
                               "../",
                               "/",
                               "\\u0000",
                               "//",
                               "null",
                               "true",
                               "-1",
                               "1e999",
                               "{\"a\":",
                               "\xff",
                               "\"size\":",
                               "\"path\":",
                               "\"a\"",
                               "\"/etc/passwd\"",
                               "\"../x\"",
                               "\"\"",
                               "\"file\"",
                               kSha1,
                               kSha256,
                               "99999999999999999999",
                               "\"lfs\": {}",
                               "\n"};

std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  mutator.mutate(text, kTokens, 5);
  return text;
}

const Registered kTarget({"hub_answers", make, try_input});

}  // namespace
}  // namespace fuzz::hub_answers
