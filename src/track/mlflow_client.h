// Sends requests to the REST interface of an MLflow server.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

#include "http/http.h"
#include "track/mlflow_files.h"

namespace dpo::track {

// Thrown if the server does not answer or is temporarily unable to. A later attempt may succeed.
struct MlflowUnavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown if MLflow itself rejects a request with an error code. A later attempt would fail too.
struct MlflowRejected : std::runtime_error {
  MlflowRejected(std::string code_, const std::string& what)
      : std::runtime_error(what), code(std::move(code_)) {}
  std::string code;
};
inline constexpr const char* kMissing = "RESOURCE_DOES_NOT_EXIST";  // one of the codes

class MlflowClient {
 public:
  // Uses the credentials in the environment: MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or
  // MLFLOW_TRACKING_TOKEN. Waits for MLFLOW_HTTP_REQUEST_TIMEOUT seconds, 120 by default, as Python does.
  MlflowClient(std::string uri, const std::atomic<bool>* cancelled);

  // Finds or creates the run on the server and sets its ids. Throws MlflowUnavailable.
  void open(MlflowRun& run);
  // Throws MlflowUnavailable or MlflowRejected.
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
  int unanswered_artifacts_ = 0;  // in a row
  http::Connection connection_;
};

}  // namespace dpo::track
