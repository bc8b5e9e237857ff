// Builds the messages for failed requests.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse_json.h"
#include "hub/answers.h"
#include "hub/settings.h"

namespace dpo::hub {
namespace {

std::string page_of(const Repository& repository) {
  return fmt::format("{}/{}{}", shown_url(endpoint()),
                     repository.kind == RepositoryKind::Dataset ? "datasets/" : "", repository.id);
}

const char* kept(Direction direction) {
  return direction == Direction::download ? "what was downloaded is kept" : "what was uploaded is kept";
}

std::string explain_gated(const Repository& repository, const std::string& what, bool has_token) {
  const std::string page = page_of(repository);
  if (has_token)
    return fmt::format(
        "{} is gated, and your token gives no access to it: accept its conditions at {}, or "
        "wait until its owner grants access; check that HF_TOKEN is of the same account",
        what, page);
  return fmt::format("{} is gated: accept its conditions at {}, then {}", what, page, kLogIn);
}

std::string explain_missing(const Repository& repository, const std::string& what, bool has_token) {
  return fmt::format(
      "there is no {} at {}, or it is private: check the name{}", what, page_of(repository),
      has_token ? ", and whether your token may read it" : fmt::format("; if it is private, {}", kLogIn));
}

std::string explain_limit(const http::Answer& answer, bool has_token) {
  const std::string wait = answer.header("retry-after");
  return fmt::format("{} limits the number of requests (HTTP status 429): try again {}{}",
                     shown_url(endpoint()), wait.empty() ? "in a few minutes" : fmt::format("in {} s", wait),
                     has_token ? "" : fmt::format("; with a token the limits are higher: {}", kLogIn));
}

}  // namespace

std::string describe(const Repository& repository) {
  return fmt::format("{} '{}'", repository.kind == RepositoryKind::Dataset ? "data set" : "model",
                     to_string(repository));
}

std::string reason_of(const http::Answer& answer) {
  const std::string message = answer.header("x-error-message");
  if (!message.empty()) return message;
  const auto body = parse_json(answer.body);
  for (const char* name : {"error", "message"})
    if (body.is_object() && body.contains(name) && body[name].is_string()) return body[name];
  return "";
}

std::string explain_refusal(const http::Answer& answer, const Repository& repository, const std::string& url,
                            bool has_token, Direction direction) {
  const std::string what = describe(repository);
  const std::string code = answer.header("x-error-code"), message = reason_of(answer);
  if (code == "GatedRepo") return explain_gated(repository, what, has_token);
  if (code == "RevisionNotFound" && is_commit(repository.revision))
    return fmt::format("'{}' has no commit {} any more: '{}' downloads the newest", repository.id,
                       repository.revision, fetch_command(repository.kind, repository.id));
  if (code == "RevisionNotFound")
    return fmt::format("'{}' has no revision '{}': {}/tree/main lists its branches and tags", repository.id,
                       repository.revision, page_of(repository));
  if (code == "EntryNotFound") return fmt::format("{}: the file is not on the hub: {}", what, shown_url(url));
  if (message == "Access to this resource is disabled.")
    return fmt::format("{}: the hub has disabled access to it; see {}", what, page_of(repository));
  if (message == "Invalid credentials in Authorization header")
    return fmt::format("{} rejects your token: check HF_TOKEN, or log in again with 'hf auth login'",
                       shown_url(endpoint()));
  if (code == "RepoNotFound" || answer.status == 401 || answer.status == 404)
    return explain_missing(repository, what, has_token);
  if (answer.status == 429) return explain_limit(answer, has_token);
  if (answer.status >= 500)
    return fmt::format("{}: {} has a problem (HTTP status {}): try again later; {}", what, origin_of(url),
                       answer.status, kept(direction));
  return fmt::format("{}: {} answered with HTTP status {}{}", what, shown_url(url), answer.status,
                     message.empty() ? "" : ": " + message);
}

std::string explain(const http::NetworkError& error, const Repository& repository, const std::string& url,
                    Direction direction) {
  const std::string host = origin_of(url);
  switch (error.kind) {
    case http::NetworkError::Kind::unreachable:
      return fmt::format("{}: cannot reach {}: {}; check the network, HTTPS_PROXY and HF_ENDPOINT",
                         describe(repository), host, error.what());
    case http::NetworkError::Kind::certificate:
      return fmt::format(
          "{}: the certificate of {} is not trusted: {}; if a proxy replaces certificates, "
          "SSL_CERT_FILE=FILE names those to trust",
          describe(repository), host, error.what());
    case http::NetworkError::Kind::interrupted: break;
  }
  return fmt::format(
      "{}: the connection to {} was interrupted again and again: {}; {}: run the command again to continue",
      describe(repository), host, error.what(), kept(direction));
}

}  // namespace dpo::hub
