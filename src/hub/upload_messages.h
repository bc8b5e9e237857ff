// What is sent to the hub to push files, and what it answers: JSON as the Python client writes and reads it.
// An answer in another form is a UserError; `origin` is the address that it came from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"

namespace dpo::hub {

// If it need not be private, the owner's default decides: some organizations create private repositories.
std::string print_new_repository(const std::string& owner, const std::string& name, bool is_private);

// "private" or "public", as an answer of /api/models/ID says; "" if it does not say.
std::string visibility_in(std::string_view json);

// A file that is to be pushed.
struct Announced {
  std::string path;  // in the repository
  std::int64_t size = 0;
  std::string sample;  // its first bytes
};
inline constexpr std::int64_t kSampleBytes = 512;

// Where the hub wants such a file, and what it has under that name.
struct Wish {
  bool large = false;    // its content goes to the store of large files (LFS), else into the commit
  bool ignored = false;  // by the repository's .gitignore
  std::string hash;      // "" if there is none
};

std::string print_preupload(const std::vector<Announced>& files);
std::map<std::string, Wish> parse_preupload(std::string_view json, const std::string& origin);

// The content of a large file.
struct LargeObject {
  std::string sha256;
  std::int64_t size = 0;
};

// How such a content is uploaded.
struct UploadPlace {
  bool present = false;        // the hub has it
  std::string error;           // the hub refuses it
  std::string url;             // of the content, or, if it is sent in parts, of the request after the last
  http::Headers headers;       // of that request
  std::int64_t part_size = 0;  // 0: in one request
  std::vector<std::string> part_urls;
  std::string verify_url;  // "": nothing to verify
  http::Headers verify_headers;
};

struct UploadPlaces {
  std::string transfer;                       // the protocol that the hub has chosen
  std::map<std::string, UploadPlace> places;  // by SHA-256
};

std::string print_batch(const std::vector<LargeObject>& objects, const std::string& revision);
UploadPlaces parse_batch(std::string_view json, const std::vector<LargeObject>& objects,
                         const std::string& origin);

// The request after the last part; `etags`: of the answers to the parts.
std::string print_completion(const std::string& sha256, const std::vector<std::string>& etags);
std::string print_verification(const LargeObject& object);

struct CommitFile {
  std::string path;
  LargeObject large = {};    // of a large file
  std::string content = {};  // of others
};

// `parent`: the commit that the changes were made for. If the branch has another one by then, the hub answers
// with the status 412.
std::string print_commit(const std::string& summary, const std::string& parent,
                         const std::vector<CommitFile>& files, const std::vector<std::string>& removed);

struct Commit {
  std::string id, url;
};
Commit parse_new_commit(std::string_view json, const std::string& origin);

// Whose token it is: /api/whoami-v2.
struct Account {
  std::string name;
  std::string role;  // of the token: read, write, fineGrained
  std::vector<std::string> organizations;
};
Account parse_account(std::string_view json);

}  // namespace dpo::hub
