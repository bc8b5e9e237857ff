// For builds without libcurl.
#include "hub/http.h"

namespace dpo::hub {

struct HttpConnection::Handle {};

bool can_download() { return false; }

HttpConnection::HttpConnection() = default;
HttpConnection::~HttpConnection() = default;

HttpAnswer HttpConnection::send(const HttpRequest&, const BodySink&) {
  throw NetworkError(NetworkError::Kind::unreachable, "this dpo was built without libcurl");
}

}  // namespace dpo::hub
