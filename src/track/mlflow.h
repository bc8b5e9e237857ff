#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "track/trackers.h"

namespace dpo::track {

// Returns where to send a run, if the keys mlflow.* or the environment say so (MLFLOW_TRACKING_URI,
// MLFLOW_EXPERIMENT_NAME). Throws UserError if a key's URI is not that of a server. Such a URI in the
// variable does not stop a run: `problem` then explains it.
std::optional<MlflowSettings> mlflow_settings(const std::optional<std::string>& uri,
                                              const std::optional<std::string>& experiment,
                                              const std::string& name);

// Returns the URI of a server without a slash at its end. Throws UserError for other URIs. `given` names the
// key in the message.
std::string checked_mlflow_uri(const std::string& given, std::string uri);

// Opens a tracker that sends from its own thread, so that a slow or unreachable server does not delay an
// update. The queue is a file, RUN/mlflow/queue.jsonl.
std::unique_ptr<Tracker> open_mlflow(const Settings& settings, const History& history);

// Returns the page of a run on the server, once the run is there.
std::optional<std::string> mlflow_page(const std::filesystem::path& run);

struct MlflowSent {
  std::int64_t values = 0;
  std::string page;
  std::string warning;  // if the queue could not be locked
};

// Sends the rest of the queue of a run that has ended. With `uri`, sends the whole queue to that server, and
// keeps the rest for the run's own server in the queue. Throws UserError if the server does not answer. If
// the run is resumed meanwhile, its process sends the rest.
MlflowSent send_mlflow_queue(const std::filesystem::path& run, const std::optional<std::string>& uri);

}  // namespace dpo::track
