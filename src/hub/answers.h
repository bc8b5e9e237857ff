// Parses the hub's answers: lists of files, headers, refusals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"
#include "hub/repository.h"

namespace dpo::hub {

// One file of a repository on the hub.
struct HubFile {
  std::string path;  // relative to the repository's root; never leaves it
  std::int64_t size = 0;
  std::string blob_id;   // git's SHA-1 of the file, or of its LFS pointer file
  std::string sha256{};  // of a large file (LFS), else empty
  std::string xet_hash{};

  const std::string& hash() const { return sha256.empty() ? blob_id : sha256; }
};

// Returns the commit in an answer of /api/models/ID/revision/REVISION. Throws UserError if `json` is not such
// an answer. `origin` is the answer's address, for messages.
std::string parse_commit(std::string_view json, const std::string& origin);

// Returns the files in a page of /api/models/ID/tree/COMMIT. Throws UserError if a name would leave the
// repository's folder.
std::vector<HubFile> parse_tree(std::string_view json, const std::string& origin);

// Reads and writes a commit's list of files as the Python client caches it (trees/COMMIT.json). Reading
// returns nullopt if the list cannot be used.
std::optional<std::vector<HubFile>> parse_cached_tree(std::string_view json);
std::string print_cached_tree(const std::vector<HubFile>& files);

// Returns the address of the next page from a Link header, or "" if this page is the last.
std::string next_page(const std::string& link_header);

// Returns the tag of an ETag header without W/ and quotes, or "" if it cannot be a file name.
std::string normalize_etag(const std::string& header);

// Returns the seconds to wait after `failures` failed requests, or nullopt if another request is pointless.
// `answer` is null if the last request got no answer.
std::optional<double> seconds_before_retry(int failures, const http::Answer* answer);

enum class Direction { download, upload };

// Returns a message that explains a failed request and what to do about it.
std::string explain_refusal(const http::Answer& answer, const Repository& repository, const std::string& url,
                            bool has_token, Direction direction);
std::string explain(const http::NetworkError& error, const Repository& repository, const std::string& url,
                    Direction direction);

// Returns the reason that a refusal gives, or "".
std::string reason_of(const http::Answer& answer);

inline constexpr const char* kLogIn = "set HF_TOKEN, or log in with 'hf auth login'";

// Returns "model 'org/name'" or "data set 'org/name'".
std::string describe(const Repository& repository);

// Returns "https://host:port" of an address, in lower case.
std::string origin_of(const std::string& url);

// Returns an address for messages, without user, password and query, which may be a signature.
std::string shown_url(const std::string& url);

// Returns the absolute address of a redirect. `location` may be relative to `url`.
std::string resolve_redirect(const std::string& url, const std::string& location);

// Percent-escapes all but letters, digits and -_.~ (and '/' if `keep_slashes`).
std::string escape(std::string_view text, bool keep_slashes);

}  // namespace dpo::hub
