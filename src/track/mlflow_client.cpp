#include "track/mlflow_client.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse_json.h"
#include "base/utf8.h"

namespace dpo::track {
namespace {

using nlohmann::ordered_json;

constexpr const char* kRunTag = "dpo.run_id";
constexpr std::string_view kProxied = "mlflow-artifacts:";  // their URIs go through the server

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63];
  }
  return text;
}

std::string percent_encoded(std::string_view text, bool keep_slashes = false) {
  std::string encoded;
  for (const char c : text)
    encoded += is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_' || (c == '/' && keep_slashes)
                   ? std::string(1, c)
                   : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return encoded;
}

// Returns the headers of a request. The choice among credentials is that of the Python client.
http::Headers headers_for_mlflow() {
  http::Headers headers = {{"content-type", "application/json"}};
  const std::string user = environment("MLFLOW_TRACKING_USERNAME");
  const std::string password = environment("MLFLOW_TRACKING_PASSWORD");
  const std::string token = environment("MLFLOW_TRACKING_TOKEN");
  if (!user.empty() && !password.empty())
    headers["authorization"] = "Basic " + base64(user + ":" + password);
  else if (!token.empty())
    headers["authorization"] = "Bearer " + token;
  return headers;
}

ordered_json json_of_answer(const std::string& body) {
  ordered_json json = parse_json<ordered_json>(body);
  return json.is_object() ? json : ordered_json::object();
}

std::string text_in(const ordered_json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// Returns the server's explanation of a failure, on one line.
std::string explanation(const http::Answer& answer) {
  constexpr std::size_t kLongest = 300;
  std::string text = fmt::format("HTTP status {}", answer.status);
  std::string message = text_in(json_of_answer(answer.body), "message");
  if (answer.header("content-type").starts_with("text/plain"))
    message = answer.body.substr(0, answer.body.find('\n'));
  if (!message.empty()) text += ": " + message.substr(0, kLongest);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return replace_invalid_utf8(text);
}

[[noreturn]] void refuse(const http::Answer& answer) {
  if (answer.status == 401 || answer.status == 403)
    throw MlflowUnavailable(
        fmt::format("{}; check MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                    "MLFLOW_TRACKING_TOKEN",
                    explanation(answer)));
  if (answer.is_redirect())
    throw MlflowUnavailable(fmt::format("it redirects to {}; try mlflow.tracking_uri with that address",
                                        answer.header("location")));
  // Statuses such as 404 may come from a proxy while the server restarts.
  const std::string code = text_in(json_of_answer(answer.body), "error_code");
  const bool may_pass = answer.status == 408 || answer.status == 429 || answer.status >= 500 ||
                        (answer.status == 404 && code != kMissing) || code.empty();
  if (may_pass) throw MlflowUnavailable(explanation(answer));
  throw MlflowRejected(code, explanation(answer));
}

long patience() {
  const long given = std::atol(environment("MLFLOW_HTTP_REQUEST_TIMEOUT").c_str());
  return given > 0 ? given : 120;
}

ordered_json tags_of(const MlflowRun& run) {
  const std::vector<std::pair<std::string, std::string>> tags = {{kRunTag, run.tag},
                                                                 {"mlflow.user", environment("USER")},
                                                                 {"mlflow.source.name", "dpo train"},
                                                                 {"mlflow.source.type", "LOCAL"}};
  ordered_json list = ordered_json::array();
  for (const auto& [key, value] : tags)
    if (!value.empty()) list.push_back({{"key", key}, {"value", value}});
  return list;
}

}  // namespace

MlflowClient::MlflowClient(std::string uri, const std::atomic<bool>* cancelled)
    : uri_(std::move(uri)), headers_(headers_for_mlflow()), patience_s_(patience()), cancelled_(cancelled) {}

http::Answer MlflowClient::answer_to(const Call& call) {
  http::Request request{.url = uri_ + call.path,
                        .method = call.method,
                        .headers = headers_,
                        .patience_s = call.patience_s > 0 ? call.patience_s : patience_s_,
                        .cancelled = cancelled_,
                        .ends_on_stop = false};
  if (!call.body.empty()) request.upload = http::upload_of(call.body);
  return connection_.send(request);
}

std::string MlflowClient::accepted(const Call& call) try {
  http::Answer answer = answer_to(call);
  if (!answer.is_success()) refuse(answer);
  return std::move(answer.body);
} catch (const http::NetworkError& error) {
  throw MlflowUnavailable(error.what());
}

std::string MlflowClient::experiment_id(const std::string& name) {
  const auto find = [&]() -> std::string {
    const std::string body =
        accepted({"GET", "/api/2.0/mlflow/experiments/get-by-name?experiment_name=" + percent_encoded(name)});
    return ordered_json::parse(body).at("experiment").at("experiment_id");
  };
  try {
    return find();
  } catch (const MlflowRejected& missing) {
    if (missing.code != kMissing) throw;
  }
  try {
    return ordered_json::parse(
               accepted({"POST", "/api/2.0/mlflow/experiments/create", ordered_json{{"name", name}}.dump()}))
        .at("experiment_id");
  } catch (const MlflowRejected& exists) {  // another run has just created it
    if (exists.code != "RESOURCE_ALREADY_EXISTS") throw;
    return find();
  }
}

// Looks for the run before creating it, because the answer to an earlier attempt may have been lost.
void MlflowClient::open(MlflowRun& run) try {
  const std::string experiment = experiment_id(run.experiment);
  const ordered_json search = {{"experiment_ids", ordered_json::array({experiment})},
                               {"filter", fmt::format("tags.`{}` = '{}'", kRunTag, run.tag)},
                               {"max_results", 1}};
  ordered_json answer = json_of_answer(accepted({"POST", "/api/2.0/mlflow/runs/search", search.dump()}));
  ordered_json found = answer.value("runs", ordered_json::array());
  if (found.empty()) {
    const ordered_json create = {{"experiment_id", experiment},
                                 {"run_name", run.name},
                                 {"start_time", run.started},
                                 {"tags", tags_of(run)}};
    answer = ordered_json::parse(accepted({"POST", "/api/2.0/mlflow/runs/create", create.dump()}));
    found.push_back(answer.at("run"));
  }
  const ordered_json& info = found.at(0).at("info");
  run.id = info.at("run_id");
  run.experiment_id = experiment;
  run.artifacts = text_in(info, "artifact_uri");
} catch (const MlflowRejected& error) {
  throw MlflowUnavailable(error.what());
} catch (const ordered_json::exception&) {
  throw MlflowUnavailable("the answer is not that of an MLflow server");
}

void MlflowClient::send(const MlflowRun& run, const MlflowRequest& request) {
  switch (request.kind) {
    case MlflowRequest::Kind::none: return;
    case MlflowRequest::Kind::batch:
      accepted({"POST", "/api/2.0/mlflow/runs/log-batch", request.body});
      return;
    case MlflowRequest::Kind::status: accepted({"POST", "/api/2.0/mlflow/runs/update", request.body}); return;
    case MlflowRequest::Kind::artifact: send_artifact(run, request); return;
  }
}

void MlflowClient::send_artifact(const MlflowRun& run, const MlflowRequest& request) try {
  constexpr long kLongest = 30;  // seconds
  // Sends only to mlflow-artifacts:/PATH and mlflow-artifacts://HOST/PATH. Only Python clients can write to
  // other stores.
  if (!run.artifacts.starts_with(kProxied)) return;
  std::string path = run.artifacts.substr(kProxied.size());
  if (path.starts_with("//")) path.erase(0, std::min(path.find('/', 2), path.size()));
  const std::string address = percent_encoded(path + "/" + request.artifact, /*keep_slashes=*/true);
  const http::Answer answer = answer_to({"PUT", "/api/2.0/mlflow-artifacts/artifacts" + address, request.body,
                                         std::min(kLongest, patience_s_)});
  unanswered_artifacts_ = 0;
  // A failing artifact store must not delay metrics, so its errors count as rejections.
  if (!answer.is_success()) throw MlflowRejected("", "artifacts: " + explanation(answer));
} catch (const http::NetworkError& error) {
  const bool is_down = error.kind != http::NetworkError::Kind::interrupted;
  if (is_down || ++unanswered_artifacts_ == 1) throw MlflowUnavailable(error.what());
  throw MlflowRejected("", fmt::format("artifacts: {}", error.what()));  // nor must one that does not answer
}

}  // namespace dpo::track
