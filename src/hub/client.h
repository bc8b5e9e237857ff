// Requests to the hub: with the user's token, redirects, and more attempts where those may help.
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

// Tells the user about a download or an upload; called from several threads.
struct Listener {
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all)> progress;  // in bytes
  std::function<void(const std::string& note)> say;
};

// The hub cannot be reached, or has a problem: what is in the cache may suffice.
struct HubUnavailable : UserError {
  using UserError::UserError;
};

// Where the content of a file is.
struct Location {
  std::string url;   // often of another host, for a limited time
  std::string etag;  // the name of its content in the cache
  std::int64_t size = 0;
};

// The hub refuses to be written to; what that means depends on the account.
struct NoAccess {
  http::Answer answer;
};

class Client {
 public:
  Client(Repository repository, const Listener& listener, Direction direction = Direction::download);

  // Sends a request, with the token, and follows redirects that stay on the hub: `request.url` becomes the
  // last address. Failures that may pass are tried again, unless `once`. Statuses in `expected` are returned;
  // other refusals and lasting failures are UserErrors that say what to do, or NoAccess.
  http::Answer send(http::Connection& connection, http::Request& request,
                    std::initializer_list<int> expected = {}, bool once = false);

  // ENDPOINT/api/models/ID/rest, and the address of a file.
  std::string api_url(const std::string& rest) const;
  std::string file_url(const std::string& commit, const std::string& path) const;
  const std::string& endpoint() const { return endpoint_; }

  // The commit of the repository's revision.
  std::string find_commit();
  // All files of a commit.
  std::vector<HubFile> list_files(const std::string& commit);

  Location locate(http::Connection& connection, const std::string& commit, const std::string& path);

  // Waits before another attempt, or throws what `failed` means if there should be none. `answer`: null if
  // there was none.
  void wait_or_throw(int failures, const http::Answer* answer, const http::NetworkError* failed,
                     const std::string& url);

  // The token for a request: hosts other than the hub's never see it.
  std::string token_for(const std::string& url) const;

  // Waits a little for another process that downloads a file.
  void wait_for_other(const std::string& path);

  const Repository& repository() const { return repository_; }
  // Ends the requests and waits of all threads, with http::Cancelled.
  std::atomic<bool>& cancelled() { return cancelled_; }

 private:
  void say_once(const std::string& note);
  void sleep_for(double seconds) const;

  Repository repository_;
  const Listener& listener_;
  Direction direction_;
  std::string endpoint_, token_;
  std::atomic<bool> reached_ = false;  // there was an answer
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;  // of said_
  std::string said_;  // so that the threads say it once
};

}  // namespace dpo::hub
