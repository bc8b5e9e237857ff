// HTTP requests over libcurl (http_curl.cpp), or none at all (http_none.cpp).
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

namespace dpo::hub {

// Whether this program was built with libcurl.
bool can_download();

using Headers = std::map<std::string, std::string>;  // names in lower case

struct HttpRequest {
  std::string url;
  std::string token = {};  // sent in the header Authorization, if it is not empty
  bool head = false;       // HEAD instead of GET
  std::optional<std::pair<std::int64_t, std::int64_t>> range = {};  // first and last byte
  const std::atomic<bool>* cancelled = nullptr;  // becomes true if the answer is no longer wanted
};

struct HttpAnswer {
  int status = 0;
  Headers headers;
  std::string body;  // what no sink took

  std::string header(const std::string& name) const;  // "" if there is none
  bool is_success() const { return status >= 200 && status < 300; }
  bool is_redirect() const { return status >= 300 && status < 400 && !header("location").empty(); }
};

// Gets the body of a successful answer piece by piece; its status and headers are known by then.
using BodySink = std::function<void(const HttpAnswer& answer, std::string_view piece)>;

// There was no answer, or it ended early.
struct NetworkError : std::runtime_error {
  enum class Kind { unreachable, certificate, interrupted };
  NetworkError(Kind kind_, const std::string& what) : std::runtime_error(what), kind(kind_) {}
  Kind kind;
};

// The request was cancelled.
struct Cancelled : std::exception {};

// Requests one after the other; a connection to a host is kept for the next. For one thread at a time.
class HttpConnection {
 public:
  HttpConnection();
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Follows no redirect. Throws NetworkError, Stopped after a stop signal, Cancelled, and what `sink` throws.
  HttpAnswer send(const HttpRequest& request, const BodySink& sink = {});

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace dpo::hub
