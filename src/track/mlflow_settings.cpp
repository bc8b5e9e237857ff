#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "http/http.h"
#include "track/mlflow.h"

namespace dpo::track {
namespace {

constexpr const char* kExperiment = "direct-preference-optimization";  // the default of wandb.project too

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

bool has_prefix(const std::string& uri, std::string_view scheme) {
  return uri.size() > scheme.size() && uri.starts_with(scheme);
}

// Returns a URI for messages, without a password that it may contain.
std::string shown_uri(const std::string& uri) {
  const std::size_t scheme = uri.find("://");
  return uri.find('@') == uri.npos ? uri : uri.substr(0, scheme == uri.npos ? 0 : scheme + 3) + "...";
}

}  // namespace

std::string checked_mlflow_uri(const std::string& given, std::string uri) {
  const std::string who = fmt::format("{}={}", given, shown_uri(uri));
  if (uri.starts_with("databricks"))
    throw UserError(
        fmt::format("{}: Databricks is not supported, only MLflow servers: expected http://HOST:PORT "
                    "or https://HOST; unset it to send nothing",
                    who));
  if (!has_prefix(uri, "http://") && !has_prefix(uri, "https://"))
    throw UserError(
        fmt::format("{}: expected the address of an MLflow server, http://HOST:PORT or https://HOST; for a "
                    "file or a database, start one with 'mlflow server --backend-store-uri {}' and try "
                    "mlflow.tracking_uri=http://127.0.0.1:5000",
                    who, shown_uri(uri)));
  if (uri.find('@') != uri.npos)
    throw UserError(fmt::format(
        "{}: the address contains a user name or password, which would be written to the run folder; set "
        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead",
        who));
  if (!http::is_available())
    throw UserError(
        fmt::format("{}: this dpo was built without libcurl, which MLflow needs: install "
                    "libcurl4-openssl-dev and build again",
                    who));
  while (uri.ends_with('/')) uri.pop_back();
  return uri;
}

std::optional<MlflowSettings> mlflow_settings(const std::optional<std::string>& uri,
                                              const std::optional<std::string>& experiment,
                                              const std::string& name) {
  const auto from_environment = variable("MLFLOW_TRACKING_URI");
  if (!uri && !from_environment) return std::nullopt;
  MlflowSettings settings{
      .uri = {},
      .experiment = experiment.value_or(variable("MLFLOW_EXPERIMENT_NAME").value_or(kExperiment)),
      .name = name,
      .from_environment = !uri};
  if (uri) {
    settings.uri = checked_mlflow_uri("mlflow.tracking_uri", *uri);
    return settings;
  }
  try {
    settings.uri = checked_mlflow_uri("MLFLOW_TRACKING_URI", *from_environment);
  } catch (const UserError& error) {
    settings.problem = error.what();
  }
  return settings;
}

}  // namespace dpo::track
