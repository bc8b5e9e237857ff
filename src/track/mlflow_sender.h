#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "track/mlflow_client.h"
#include "track/mlflow_files.h"

namespace dpo::track {

// Sends the queue of a run, request by request, and keeps in run.json how far it is.
class MlflowSender {
 public:
  // `cancelled`: of the run itself; null in another process, which stops if the run begins again meanwhile.
  // `keeps_state`: false if run.json is about another server.
  MlflowSender(std::filesystem::path folder, MlflowRun run, const std::atomic<bool>* cancelled = nullptr,
               bool keeps_state = true);

  // Sends the next request, of the lines that end before byte `end` of the queue. Throws MlflowUnavailable,
  // and then the same is sent with the next call.
  void send_next(std::uint64_t end);

  // Reads in run.json what another process has sent of the queue.
  void reload(std::uint64_t end);

  const MlflowRun& run() const { return run_; }
  std::uint64_t sent() const { return run_.sent; }  // bytes of the queue
  std::int64_t sent_values() const { return sent_values_; }
  // What the server did not accept ("5 values"), and its first reason. It is not sent again.
  std::string rejected() const;
  const std::string& rejection() const { return rejection_; }
  // Values in the queue that are not sent yet.
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
