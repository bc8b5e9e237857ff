// Prints the requests of a push and parses the answers: JSON as the Python client writes and reads it. An
// answer in another form throws UserError; `origin` is its address, for messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"

namespace dpo::hub {

// If `is_private` is false, the owner's default decides: some organizations create private repositories.
std::string print_new_repository(const std::string& owner, const std::string& name, bool is_private);

// Returns "private" or "public" from an answer of /api/models/ID, or "" if it has neither.
std::string visibility_in(std::string_view json);

// A file that is to be pushed.
struct Announced {
  std::string path;  // in the repository
  std::int64_t size = 0;
  std::string sample;  // its first bytes
};
inline constexpr std::int64_t kSampleBytes = 512;

// The hub's reply about one file: how to upload it, and the hash of the content that the hub has.
struct PreuploadReply {
  bool large = false;    // the content goes to the LFS store, otherwise into the commit
  bool ignored = false;  // by the repository's .gitignore
  std::string hash;      // of the content that the hub has; empty if it has none
};

std::string print_preupload(const std::vector<Announced>& files);
std::map<std::string, PreuploadReply> parse_preupload(std::string_view json, const std::string& origin);

// Identifies the content of a large file.
struct LargeObject {
  std::string sha256;
  std::int64_t size = 0;
};

// The hub's instructions for uploading a large file.
struct UploadTarget {
  bool present = false;        // the hub already has the content
  std::string error;           // why the hub rejects the content, or empty
  std::string url;             // for the content or, if it is sent in parts, for the request after the last
  http::Headers headers;       // of the request to `url`
  std::int64_t part_size = 0;  // bytes; 0: the content is sent in one request
  std::vector<std::string> part_urls;
  std::string verify_url;  // empty: nothing to verify
  http::Headers verify_headers;
};

struct UploadTargets {
  std::string transfer;                         // the protocol that the hub has chosen
  std::map<std::string, UploadTarget> targets;  // keyed by SHA-256
};

std::string print_batch(const std::vector<LargeObject>& objects, const std::string& revision);
UploadTargets parse_batch(std::string_view json, const std::vector<LargeObject>& objects,
                          const std::string& origin);

// Prints the request after the last part. `etags` are those of the answers to the parts.
std::string print_completion(const std::string& sha256, const std::vector<std::string>& etags);
std::string print_verification(const LargeObject& object);

struct CommitFile {
  std::string path;
  LargeObject large = {};    // for a large file
  std::string content = {};  // for other files
};

// `parent` is the commit that the changes were made for. If the branch has moved on since, the hub answers
// with status 412.
std::string print_commit(const std::string& summary, const std::string& parent,
                         const std::vector<CommitFile>& files, const std::vector<std::string>& removed);

struct Commit {
  std::string id, url;
};
Commit parse_new_commit(std::string_view json, const std::string& origin);

// Owner of the token, from /api/whoami-v2.
struct Account {
  std::string name;
  std::string role;  // of the token: read, write or fineGrained
  std::vector<std::string> organizations;
};
Account parse_account(std::string_view json);

}  // namespace dpo::hub
