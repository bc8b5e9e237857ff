#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "track/trackers.h"

namespace dpo::track {

// Where to send a run, if the keys mlflow.* or the environment say so (MLFLOW_TRACKING_URI,
// MLFLOW_EXPERIMENT_NAME). A key with a URI that is not of a server is a UserError; a variable like that does
// not stop a run: `problem` says what is wrong with it.
std::optional<MlflowSettings> mlflow_settings(const std::optional<std::string>& uri,
                                              const std::optional<std::string>& experiment,
                                              const std::string& name);

// The URI of a server without a slash at its end; anything else is a UserError. `given`: by which key.
std::string checked_mlflow_uri(const std::string& given, std::string uri);

// A thread of its own sends what the run logs, so that a server that is slow or down does not delay an
// update. The queue is a file, RUN/mlflow/queue.jsonl.
std::unique_ptr<Tracker> open_mlflow(const Settings& settings, const History& history);

// The page of a run on the server, once the run is there.
std::optional<std::string> mlflow_page(const std::filesystem::path& run);

struct MlflowSent {
  std::int64_t values = 0;
  std::string page;
  std::string warning;  // if the queue could not be locked
};

// Sends what is left in the queue of a run that has ended; with `uri` all of it, to that server: the rest for
// its own server stays in the queue. A UserError if the server does not answer. A run that is resumed
// meanwhile sends afterwards.
MlflowSent send_mlflow_queue(const std::filesystem::path& run, const std::optional<std::string>& uri);

}  // namespace dpo::track
