#include "hub/client.h"

#include <charconv>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/progress_count.h"
#include "base/stop.h"
#include "hub/settings.h"

namespace dpo::hub {
namespace {

bool is_of_hugging_face(const std::string& origin) {
  return origin == "https://huggingface.co" || origin == "https://hf.co";
}

std::int64_t number_of(const std::string& text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Client::Client(Repository repository, const Listener& listener, Direction direction)
    : repository_(std::move(repository)),
      listener_(listener),
      direction_(direction),
      endpoint_(hub::endpoint()),
      token_(token()) {}

std::string Client::token_for(const std::string& url) const {
  const std::string origin = origin_of(url);
  return origin == origin_of(endpoint_) || is_of_hugging_face(origin) ? token_ : "";
}

// A stop signal ends the wait early, by throwing Stopped.
void Client::sleep_for(double seconds) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    if (stop_requested()) throw Stopped();
    if (cancelled_) throw http::Cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < end);
}

void Client::wait_for_other(const std::string& path) {
  say_once(fmt::format("waiting for another process that downloads {} of {}", path, to_string(repository_)));
  count_progress();
  sleep_for(0);
}

void Client::wait_or_throw(int failures, const http::Answer* answer, const http::NetworkError* failed,
                           const std::string& url) {
  // Retries an unreachable host only if the hub has answered before.
  const bool hopeless = failed && (failed->kind == http::NetworkError::Kind::certificate ||
                                   (failed->kind == http::NetworkError::Kind::unreachable && !reached_));
  const auto seconds = hopeless ? std::nullopt : seconds_before_retry(failures, answer);
  if (!seconds && answer && direction_ == Direction::upload && answer->status == 403 &&
      !token_for(url).empty())
    throw NoAccess{*answer};
  if (!seconds) {
    std::string why = answer ? explain_refusal(*answer, repository_, url, !token_.empty(), direction_)
                             : explain(*failed, repository_, url, direction_);
    const bool unavailable = answer ? answer->status == 429 || answer->status >= 500
                                    : failed->kind != http::NetworkError::Kind::certificate;
    if (unavailable) throw HubUnavailable(std::move(why));
    throw UserError(std::move(why));
  }
  constexpr double kWorthSaying = 5;
  if (answer && *seconds >= kWorthSaying)
    say_once(fmt::format("{} answers with HTTP status {}: waiting for {:.0f} s", origin_of(url),
                         answer->status, *seconds));
  sleep_for(*seconds);
}

void Client::say_once(const std::string& note) {
  const std::lock_guard lock(mutex_);
  if (listener_.say && note != said_) listener_.say(note);
  said_ = note;
}

http::Answer Client::send(http::Connection& connection, http::Request& request,
                          std::initializer_list<int> expected, bool once) {
  constexpr int kRedirects = 10;
  for (int failures = 0, redirects = 0;;) {
    http::Answer answer;
    request.token = token_for(request.url);
    if (!request.cancelled) request.cancelled = &cancelled_;
    try {
      answer = connection.send(request);
    } catch (const http::NetworkError& error) {
      if (once) throw;
      wait_or_throw(++failures, nullptr, &error, request.url);
      continue;
    }
    reached_ = true;
    if (answer.is_success()) return answer;
    if (answer.is_redirect() && ++redirects <= kRedirects) {
      const std::string target = resolve_redirect(request.url, answer.header("location"));
      const std::string origin = origin_of(target);
      if (origin != origin_of(request.url) && origin != origin_of(endpoint_) && !is_of_hugging_face(origin))
        return answer;  // it leads to a store of large files; the file's metadata is in this answer
      request.url = target;
      continue;
    }
    if (once || std::ranges::find(expected, answer.status) != expected.end()) return answer;
    wait_or_throw(++failures, &answer, nullptr, request.url);
  }
}

std::string Client::api_url(const std::string& rest) const {
  return fmt::format("{}/api/{}/{}/{}", endpoint_,
                     repository_.kind == RepositoryKind::Dataset ? "datasets" : "models", repository_.id,
                     rest);
}

std::string Client::file_url(const std::string& commit, const std::string& path) const {
  return fmt::format("{}/{}{}/resolve/{}/{}", endpoint_,
                     repository_.kind == RepositoryKind::Dataset ? "datasets/" : "", repository_.id, commit,
                     escape(path, true));
}

std::string Client::find_commit() {
  if (is_commit(repository_.revision)) return repository_.revision;
  http::Connection connection;
  http::Request request{.url = api_url("revision/" + escape(repository_.revision, false)),
                        .patience_s = download_timeout()};
  const http::Answer answer = send(connection, request);
  return parse_commit(answer.body, request.url);
}

std::vector<HubFile> Client::list_files(const std::string& commit) {
  constexpr int kPages = 10'000;
  http::Connection connection;
  std::vector<HubFile> files;
  http::Request request{.url = api_url("tree/" + commit + "?recursive=true&expand=false"),
                        .patience_s = download_timeout()};
  for (int page = 0; page < kPages && !request.url.empty(); ++page) {
    const http::Answer answer = send(connection, request);
    const std::vector<HubFile> more = parse_tree(answer.body, request.url);
    files.insert(files.end(), more.begin(), more.end());
    const std::string next = next_page(answer.header("link"));
    request.url = next.empty() ? "" : resolve_redirect(request.url, next);
  }
  return files;
}

Location Client::locate(http::Connection& connection, const std::string& commit, const std::string& path) {
  http::Request request{.url = file_url(commit, path), .method = "HEAD", .patience_s = download_timeout()};
  const http::Answer answer = send(connection, request);
  const std::string& url = request.url;
  const auto either = [&](const char* first, const char* second) {
    return answer.header(first).empty() ? answer.header(second) : answer.header(first);
  };
  Location location;
  location.etag = normalize_etag(either("x-linked-etag", "etag"));
  location.size = number_of(answer.is_redirect() ? answer.header("x-linked-size")
                                                 : either("x-linked-size", "content-length"));
  location.url = answer.is_redirect() ? resolve_redirect(url, answer.header("location")) : url;
  if (answer.header("x-repo-commit").empty() || location.etag.empty())
    throw UserError(
        fmt::format("{}: not a response of a Hugging Face hub: no X-Repo-Commit or ETag; check "
                    "HF_ENDPOINT and the proxy",
                    url));
  return location;
}

}  // namespace dpo::hub
