// Sends requests to the hub with the user's token, follows redirects and retries.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/http.h"
#include "hub/answers.h"
#include "hub/repository.h"

namespace dpo::hub {

// Callbacks that report a download or an upload to the user. They are called from several threads.
struct Listener {
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all)> progress;  // bytes
  std::function<void(const std::string& note)> say;
};

// Thrown if the hub cannot be reached or fails. The caller may fall back to the cache.
struct HubUnavailable : UserError {
  using UserError::UserError;
};

// Location of a file's content.
struct Location {
  std::string url;   // often on another host, and valid for a limited time
  std::string etag;  // the content's name in the cache
  std::int64_t size = 0;
};

// Thrown if the hub denies write access. What the user can do depends on the account.
struct NoAccess {
  http::Answer answer;
};

class Client {
 public:
  Client(Repository repository, const Listener& listener, Direction direction = Direction::download);

  // Sends a request with the token and follows redirects that stay on the hub; `request.url` becomes the last
  // address. Transient failures are retried unless `once`. Returns answers whose status is in `expected`.
  // Other refusals and lasting failures throw UserError with advice, or NoAccess.
  http::Answer send(http::Connection& connection, http::Request& request,
                    std::initializer_list<int> expected = {}, bool once = false);

  // Returns ENDPOINT/api/models/ID/rest (or api/datasets), and the address of a file.
  std::string api_url(const std::string& rest) const;
  std::string file_url(const std::string& commit, const std::string& path) const;
  const std::string& endpoint() const { return endpoint_; }

  // Returns the commit of the repository's revision.
  std::string find_commit();
  // Returns all files of a commit.
  std::vector<HubFile> list_files(const std::string& commit);

  Location locate(http::Connection& connection, const std::string& commit, const std::string& path);

  // Waits before the next attempt, or throws an error that explains the failure if there should be none.
  // `answer` is null if there was none; then `failed` is not.
  void wait_or_throw(int failures, const http::Answer* answer, const http::NetworkError* failed,
                     const std::string& url);

  // Returns the token for a request, or "" if the host is neither the endpoint's nor Hugging Face's.
  std::string token_for(const std::string& url) const;

  // Waits briefly for another process that downloads the same file.
  void wait_for_other(const std::string& path);

  const Repository& repository() const { return repository_; }
  // Set to true to end the requests and waits of all threads with http::Cancelled.
  std::atomic<bool>& cancelled() { return cancelled_; }

 private:
  void say_once(const std::string& note);
  void sleep_for(double seconds) const;

  Repository repository_;
  const Listener& listener_;
  Direction direction_;
  std::string endpoint_, token_;
  std::atomic<bool> reached_ = false;  // true once the hub has answered
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;  // guards said_
  std::string said_;  // the last note, so that several threads print it only once
};

}  // namespace dpo::hub
