// Requests to the REST interface of an MLflow server.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

#include "http/http.h"
#include "track/mlflow_files.h"

namespace dpo::track {

// The server does not answer, or cannot do it now: worth another try later.
struct MlflowUnavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The server does not accept it, and would not later either: MLflow itself says so, with a code.
struct MlflowRejected : std::runtime_error {
  MlflowRejected(std::string code_, const std::string& what)
      : std::runtime_error(what), code(std::move(code_)) {}
  std::string code;
};
inline constexpr const char* kMissing = "RESOURCE_DOES_NOT_EXIST";  // one of the codes

class MlflowClient {
 public:
  // With the credentials in the environment: MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or
  // MLFLOW_TRACKING_TOKEN. It waits for MLFLOW_HTTP_REQUEST_TIMEOUT seconds, 120 by default, as Python does.
  MlflowClient(std::string uri, const std::atomic<bool>* cancelled);

  // Finds the run on the server, or creates it; sets its ids. Throws MlflowUnavailable.
  void open(MlflowRun& run);
  // Throws both errors.
  void send(const MlflowRun& run, const MlflowRequest& request);

 private:
  struct Call {
    const char* method;
    std::string path;
    std::string body = {};
    long patience_s = 0;
  };

  http::Answer answer_to(const Call& call);  // throws http::NetworkError
  void send_artifact(const MlflowRun& run, const MlflowRequest& request);
  std::string accepted(const Call& call);
  std::string experiment_id(const std::string& name);

  std::string uri_;
  http::Headers headers_;
  long patience_s_;
  const std::atomic<bool>* cancelled_;
  int unanswered_artifacts_ = 0;  // one after the other
  http::Connection connection_;
};

}  // namespace dpo::track
