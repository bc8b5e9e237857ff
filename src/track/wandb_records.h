// Writes and reads the messages of W&B's wandb_internal.proto that make up a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "track/trackers.h"

namespace dpo::track {

// Names and values as JSON, for a row of the history or the summary.
using Items = std::vector<std::pair<std::string, std::string>>;

struct WandbRun {
  std::string id;
  double started = 0;  // seconds since 1970
};

std::string header_record();
std::string run_record(const WandbRun& run, const WandbSettings& settings, const std::string& config);
// Returns the records of a row: the files that it refers to, for uploading; its values as the newest of the
// summary; and its values as history.
std::vector<std::string> row_records(std::int64_t step, const Items& items);
std::string exit_record(int status, std::int64_t seconds);

// These read an old file when a run is resumed.
bool is_our_header(std::string_view record);
std::optional<WandbRun> read_run(std::string_view record);
std::optional<std::int64_t> step_of_history(std::string_view record);
std::optional<std::pair<std::int64_t, Items>> read_history(std::string_view record);

}  // namespace dpo::track
