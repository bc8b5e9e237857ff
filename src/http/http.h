// http: requests over libcurl (curl.cpp), or none at all (none.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dpo::http {

// Whether this program was built with libcurl.
bool is_available();

using Headers = std::map<std::string, std::string>;  // names in lower case

// What a request sends: read from the beginning again if it is sent again.
struct Upload {
  std::int64_t size = 0;
  // Fills `into` from `offset` on; returns how many bytes, at least 1.
  std::function<std::size_t(std::int64_t offset, char* into, std::size_t size)> read;
};

struct Request {
  std::string url;
  std::string method = "GET";
  std::string token = {};  // sent in the header Authorization, if it is not empty
  Headers headers = {};    // further ones
  std::optional<std::pair<std::int64_t, std::int64_t>> range = {};  // first and last byte
  std::optional<Upload> upload = {};
  long patience_s = 10;  // gives up a connection that has sent or received nothing for so long
  const std::atomic<bool>* cancelled = nullptr;  // becomes true if the answer is no longer wanted
  bool ends_on_stop = true;                      // a stop signal ends it: false for what a run sends last
};

struct Answer {
  int status = 0;
  Headers headers;
  std::string body;  // what no sink took

  std::string header(const std::string& name) const;  // "" if there is none
  bool is_success() const { return status >= 200 && status < 300; }
  bool is_redirect() const { return status >= 300 && status < 400 && !header("location").empty(); }
};

// An upload of `body`, which must outlive the request.
Upload upload_of(std::string_view body);

// Gets the body of a successful answer piece by piece; its status and headers are known by then.
using BodySink = std::function<void(const Answer& answer, std::string_view piece)>;

// There was no answer, or it ended early.
struct NetworkError : std::runtime_error {
  enum class Kind { unreachable, certificate, interrupted };
  NetworkError(Kind kind_, const std::string& what) : std::runtime_error(what), kind(kind_) {}
  Kind kind;
};

// The request was cancelled.
struct Cancelled : std::exception {};

// Requests one after the other; a connection to a host is kept for the next. For one thread at a time.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Follows no redirect. Throws NetworkError, Stopped after a stop signal, Cancelled, and what `sink` throws.
  Answer send(const Request& request, const BodySink& sink = {});

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace dpo::http
