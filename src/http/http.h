// http: sends requests over libcurl (curl.cpp), or none in builds without it (none.cpp).
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

// Returns true if this program was built with libcurl.
bool is_available();

using Headers = std::map<std::string, std::string>;  // names in lower case

// Body of a request. It is read from the beginning again if the request is sent again.
struct Upload {
  std::int64_t size = 0;
  // Fills `into` from `offset` on and returns the number of bytes, at least 1.
  std::function<std::size_t(std::int64_t offset, char* into, std::size_t size)> read;
};

struct Request {
  std::string url;
  std::string method = "GET";
  std::string token = {};  // sent in the header Authorization unless empty
  Headers headers = {};    // additional headers
  std::optional<std::pair<std::int64_t, std::int64_t>> range = {};  // first and last byte
  std::optional<Upload> upload = {};
  long patience_s = 10;  // seconds without traffic after which a connection is given up
  const std::atomic<bool>* cancelled = nullptr;  // set to true if the answer is no longer wanted
};

struct Answer {
  int status = 0;
  Headers headers;
  std::string body;  // bytes that no sink took

  std::string header(const std::string& name) const;  // "" if there is none
  bool is_success() const { return status >= 200 && status < 300; }
  bool is_redirect() const { return status >= 300 && status < 400 && !header("location").empty(); }
};

// Returns an upload of `body`, which must outlive the request.
Upload upload_of(std::string_view body);

// Receives the body of a successful answer piece by piece, after its status and headers.
using BodySink = std::function<void(const Answer& answer, std::string_view piece)>;

// Thrown if there was no answer, or it ended early.
struct NetworkError : std::runtime_error {
  enum class Kind { unreachable, certificate, interrupted };
  NetworkError(Kind kind_, const std::string& what) : std::runtime_error(what), kind(kind_) {}
  Kind kind;
};

// Thrown if the request was cancelled.
struct Cancelled : std::exception {};

// Sends requests one after the other and keeps the connection to a host for the next. Not thread-safe.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Does not follow redirects. Throws NetworkError, Stopped after a stop signal, Cancelled, and what `sink`
  // throws.
  Answer send(const Request& request, const BodySink& sink = {});

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace dpo::http
