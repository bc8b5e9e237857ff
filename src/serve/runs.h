// serve: serves a live page about runs over HTTP.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/followed_run.h"
#include "report/held_out.h"

namespace dpo::serve {

// A run that was found. Requests name it by its id, which stays the same when the server is restarted.
struct Run {
  std::string id;    // of letters and digits
  std::string name;  // display name: the path below the given folder
  std::filesystem::path folder;
};

// running: the log has no end and the files changed recently. silent: they did not, so the run was killed or
// hangs.
enum class Status { running, silent, finished, stopped, failed };
const char* name_of(Status status);

// The runs in some folders, which may be on another machine's disk. Thread-safe.
class Runs {
 public:
  explicit Runs(std::vector<std::filesystem::path> folders);
  ~Runs();

  std::optional<Run> find(const std::string& id) const;

  // Returns all runs with status and last values, the latest start first. Looks for new runs every few
  // seconds.
  nlohmann::json list();

  // Compares the held-out examples of these runs, as of the last list().
  report::HeldOutComparison compare_held_out(const std::vector<std::string>& ids) const;

  // Calls `use` with the summary of a run's files. Keeps the summaries of the kMostFollowed runs requested
  // last, so that the next call reads only new lines. Returns false if there is no such run.
  bool follow(const std::string& id, const std::function<void(const report::FollowedRun&)>& use);
  static constexpr std::size_t kMostFollowed = 40;

 private:
  struct Watched;
  struct Followed;
  void scan();
  std::shared_ptr<Followed> followed(const std::string& id);

  const std::vector<std::filesystem::path> folders_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // keyed by id
  std::deque<std::shared_ptr<Followed>> followed_;           // the one requested last comes first
  std::chrono::steady_clock::time_point next_scan_{};
};

// Returns the runs in and below some folders, sorted by name. If there are very many, returns those that
// changed last. Does not follow links.
std::vector<Run> find_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace dpo::serve
