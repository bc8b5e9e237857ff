// What the hub answers: lists of files, headers, refusals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"
#include "hub/repository.h"

namespace dpo::hub {

// A file of a repository.
struct HubFile {
  std::string path;  // below the repository's root; never leaves it
  std::int64_t size = 0;
  std::string blob_id;   // the SHA-1 that git gives the file, or the file that points to a large one
  std::string sha256{};  // of a large file (LFS), else ""
  std::string xet_hash{};

  const std::string& hash() const { return sha256.empty() ? blob_id : sha256; }
};

// The commit in an answer of /api/models/ID/revision/REVISION. What is not such an answer is a UserError;
// `origin` is the address that it came from.
std::string parse_commit(std::string_view json, const std::string& origin);

// The files in a page of /api/models/ID/tree/COMMIT. Names that would leave the repository's folder are a
// UserError.
std::vector<HubFile> parse_tree(std::string_view json, const std::string& origin);

// The list of a commit's files as the Python client caches it: trees/COMMIT.json. nullopt if it cannot be
// used.
std::optional<std::vector<HubFile>> parse_cached_tree(std::string_view json);
std::string print_cached_tree(const std::vector<HubFile>& files);

// The address of the next page in a header Link; "" if this page is the last.
std::string next_page(const std::string& link_header);

// The tag in a header ETag: without W/ and quotes. "" if it cannot be a file's name.
std::string normalize_etag(const std::string& header);

// Seconds until request number `failures` + 1, after so many failures; nullopt if another one is pointless.
// `answer` is null if there was none.
std::optional<double> seconds_before_retry(int failures, const http::Answer* answer);

enum class Direction { download, upload };

// What a refusal means, and what to do about it.
std::string explain_refusal(const http::Answer& answer, const Repository& repository, const std::string& url,
                            bool has_token, Direction direction);
std::string explain(const http::NetworkError& error, const Repository& repository, const std::string& url,
                    Direction direction);

// The reason that a refusal gives; "" if it gives none.
std::string reason_of(const http::Answer& answer);

inline constexpr const char* kLogIn = "set HF_TOKEN, or log in with 'hf auth login'";

// "model 'org/name'"
std::string describe(const Repository& repository);

// "https://host:port" of an address, in lower case.
std::string origin_of(const std::string& url);

// An address for messages: without user and password, and without the query, which may be a signature.
std::string shown_url(const std::string& url);

// The address of a redirect, which may be relative to `url`.
std::string resolve_redirect(const std::string& url, const std::string& location);

// Escapes all but letters, digits and -_.~ (and '/', if it is kept).
std::string escape(std::string_view text, bool keep_slashes);

}  // namespace dpo::hub
