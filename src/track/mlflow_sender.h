#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "track/mlflow_client.h"
#include "track/mlflow_files.h"

namespace dpo::track {

// Sends the queue of a run, request by request, and keeps the position in run.json.
class MlflowSender {
 public:
  // `cancelled` is the flag of the run's own process. It is null in another process, which stops if the run
  // begins again meanwhile. `keeps_state` is false if run.json is about another server.
  MlflowSender(std::filesystem::path folder, MlflowRun run, const std::atomic<bool>* cancelled = nullptr,
               bool keeps_state = true);

  // Sends the next request, made from lines before byte `end` of the queue. Throws MlflowUnavailable; the
  // next call then sends the same request.
  void send_next(std::uint64_t end);

  // Reads from run.json how much of the queue another process has sent.
  void reload(std::uint64_t end);

  const MlflowRun& run() const { return run_; }
  std::uint64_t sent() const { return run_.sent; }  // bytes of the queue
  std::int64_t sent_values() const { return sent_values_; }
  // Returns a description of what the server rejected ("5 values"). rejection() is its first reason. Rejected
  // values are not sent again.
  std::string rejected() const;
  const std::string& rejection() const { return rejection_; }
  // Returns the number of values in the queue that are not sent yet.
  std::int64_t remaining() const;

 private:
  void remember() const;
  bool was_replaced() const;

  std::filesystem::path folder_;
  MlflowRun run_;
  MlflowClient client_;
  bool is_of_run_, keeps_state_;
  std::int64_t sent_values_ = 0, rejected_values_ = 0, rejected_artifacts_ = 0;
  std::string rejection_;
};

}  // namespace dpo::track
