#include <curl/curl.h>
#include <unistd.h>

#include <csignal>

#include <algorithm>
#include <ctime>
#include <exception>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/stop.h"
#include "http/http.h"

namespace dpo::http {
namespace {

constexpr std::size_t kLongestBody = 256u << 20;  // bytes of an answer without a sink (a list of files)

// State that the callbacks of a request share.
struct Exchange {
  const Request& request;
  const BodySink& sink;
  Answer answer;
  std::exception_ptr failure;
  std::int64_t sent = 0;
};

// Parses "Name: value", or the status line that begins the headers.
void add_header(Answer& answer, std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' '))
    line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    answer = {};  // discards an interim answer, such as status 100
    const std::size_t space = line.find(' ');
    answer.status = space == line.npos ? 0 : std::atoi(std::string(line.substr(space)).c_str());
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  line.remove_prefix(colon + 1);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  answer.headers[name] = line;
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* exchange) {
  add_header(static_cast<Exchange*>(exchange)->answer, {data, size});
  return size;
}

std::size_t take_body(char* data, std::size_t, std::size_t size, void* pointer) {
  Exchange& exchange = *static_cast<Exchange*>(pointer);
  try {
    if (exchange.sink && exchange.answer.is_success())
      exchange.sink(exchange.answer, {data, size});
    else if (exchange.answer.body.size() + size <= kLongestBody)
      exchange.answer.body.append(data, size);
    else
      throw UserError(
          fmt::format("{}: the response is larger than {} bytes", exchange.request.url, kLongestBody));
    return size;
  } catch (...) {
    exchange.failure = std::current_exception();
    return 0;
  }
}

std::size_t give_body(char* into, std::size_t, std::size_t size, void* pointer) {
  Exchange& exchange = *static_cast<Exchange*>(pointer);
  const Upload& upload = *exchange.request.upload;
  try {
    const std::int64_t left = upload.size - exchange.sent;
    if (left == 0) return 0;
    const std::size_t given =
        upload.read(exchange.sent, into, std::min(size, static_cast<std::size_t>(left)));
    exchange.sent += static_cast<std::int64_t>(given);
    return given;
  } catch (...) {
    exchange.failure = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
}

// libcurl sends the body again if a connection was closed before the first byte of the answer.
int seek_body(void* pointer, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(pointer)->sent = offset;
  return CURL_SEEKFUNC_OK;
}

// libcurl calls this about once per second or more often. A nonzero result ends the request.
int check_stop(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Exchange& exchange = *static_cast<Exchange*>(pointer);
  if (stop_requested()) exchange.failure = std::make_exception_ptr(Stopped());
  if (exchange.request.cancelled && *exchange.request.cancelled)
    exchange.failure = std::make_exception_ptr(Cancelled());
  return exchange.failure ? 1 : 0;
}

NetworkError::Kind kind_of(CURLcode code, CURL* curl) {
  curl_off_t connected = 0;  // microseconds until connected; 0 if it never was
  curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &connected);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT: return NetworkError::Kind::unreachable;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: return NetworkError::Kind::certificate;
    default: return connected == 0 ? NetworkError::Kind::unreachable : NetworkError::Kind::interrupted;
  }
}

// Blocks SIGPIPE in this thread. OpenSSL under older versions of libcurl raises it when it writes to a
// connection that the other side has closed, and unblocked it ends the process.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const std::timespec at_once{};
    if (!sigismember(&before_, SIGPIPE)) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

// Returns the file of certificate authorities, or "" for libcurl's own. The libcurl of a package knows only
// the file of the distribution that it was built on, so the files of other distributions are tried too.
std::string authorities() {
  if (const char* given = std::getenv("SSL_CERT_FILE"); given && *given) return given;
  for (const char* const file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                 "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (::access(file, R_OK) == 0) return file;
  return "";
}

using HeaderList = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

HeaderList headers_of(const Request& request) {
  curl_slist* list = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!request.token.empty())
    list = curl_slist_append(list, ("Authorization: Bearer " + request.token).c_str());
  for (const auto& [name, value] : request.headers)
    list = curl_slist_append(list, (name + ": " + value).c_str());
  if (request.upload) list = curl_slist_append(list, "Expect:");  // do not wait for status 100
  return {list, curl_slist_free_all};
}

}  // namespace

bool is_available() { return true; }

struct Connection::Handle {
  CURL* curl = curl_easy_init();
  ~Handle() {
    const WithoutSigpipe blocked;
    curl_easy_cleanup(curl);
  }
};

Connection::Connection() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  handle_ = std::make_unique<Handle>();
  if (!handle_->curl) throw std::bad_alloc();
}

Connection::~Connection() = default;

Answer Connection::send(const Request& request, const BodySink& sink) {
  constexpr long kConnectSeconds = 10, kSlow = 100;  // bytes per second
  const WithoutSigpipe blocked;
  CURL* const curl = handle_->curl;
  curl_easy_reset(curl);  // keeps open connections
  Exchange exchange{request, sink, {}, {}, 0};
  const HeaderList headers = headers_of(request);
  const auto set = [curl](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_USERAGENT, "dpo/" DPO_VERSION);
  set(CURLOPT_HTTPHEADER, headers.get());
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // one connection per thread
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, kSlow);
  set(CURLOPT_LOW_SPEED_TIME, request.patience_s);
  if (const std::string file = authorities(); !file.empty()) set(CURLOPT_CAINFO, file.c_str());
  if (request.method == "HEAD")
    set(CURLOPT_NOBODY, 1L);
  else if (request.upload) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.upload->size));
    set(CURLOPT_READFUNCTION, &give_body);
    set(CURLOPT_READDATA, &exchange);
    set(CURLOPT_SEEKFUNCTION, &seek_body);
    set(CURLOPT_SEEKDATA, &exchange);
  }
  if (request.method != "GET" && request.method != "HEAD") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  std::string range;
  if (request.range) {
    range = fmt::format("{}-{}", request.range->first, request.range->second);
    set(CURLOPT_RANGE, range.c_str());
  }
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &exchange);
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_XFERINFOFUNCTION, &check_stop);
  set(CURLOPT_XFERINFODATA, &exchange);
  set(CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(curl);
  if (exchange.failure) std::rethrow_exception(exchange.failure);
  if (code != CURLE_OK) throw NetworkError(kind_of(code, curl), curl_easy_strerror(code));
  return std::move(exchange.answer);
}

}  // namespace dpo::http
