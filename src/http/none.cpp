// Stubs for builds without libcurl.
#include "http/http.h"

namespace dpo::http {

struct Connection::Handle {};

bool is_available() { return false; }

Connection::Connection() = default;
Connection::~Connection() = default;

Answer Connection::send(const Request&, const BodySink&) {
  throw NetworkError(NetworkError::Kind::unreachable, "this dpo was built without libcurl");
}

}  // namespace dpo::http
