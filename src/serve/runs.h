// serve: a live page about runs, over HTTP.
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

// A run that was found. Requests name it by its id, which stays the same when the server is started again.
struct Run {
  std::string id;    // of letters and digits
  std::string name;  // as it is shown: its path below the folder that was given
  std::filesystem::path folder;
};

// running: its log has no end and its files changed lately. silent: they did not, so it was killed, or hangs.
enum class Status { running, silent, finished, stopped, failed };
const char* name_of(Status status);

// The runs in folders, which may be on another machine's disk. Can be used by several threads.
class Runs {
 public:
  explicit Runs(std::vector<std::filesystem::path> folders);
  ~Runs();

  std::optional<Run> find(const std::string& id) const;

  // All runs with status and last values, those that started last first. Looks for new runs every few
  // seconds.
  nlohmann::json list();

  // Whether these runs are evaluated on the same examples, as of the last list().
  report::HeldOutComparison compare_held_out(const std::vector<std::string>& ids) const;

  // Calls `use` with the summary of a run's files. The summaries of the kMostFollowed runs that were asked
  // for last are kept, so that the next call reads only new lines. Returns false if there is no such run.
  bool follow(const std::string& id, const std::function<void(const report::FollowedRun&)>& use);
  static constexpr std::size_t kMostFollowed = 40;

 private:
  struct Watched;
  struct Followed;
  void scan();
  std::shared_ptr<Followed> followed(const std::string& id);

  const std::vector<std::filesystem::path> folders_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // by id
  std::deque<std::shared_ptr<Followed>> followed_;           // the one that was asked for last first
  std::chrono::steady_clock::time_point next_scan_{};
};

// The runs in and below some folders, in order of their names; of very many, those that changed last. Links
// are not followed.
std::vector<Run> find_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace dpo::serve
