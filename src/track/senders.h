#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dpo::track {

// A tracker that is used through its Python package.
struct Package {
  const char* name;   // of the package
  const char* title;  // of the tracker
};

// Returns the trackers that src/track/python can send a run to.
std::span<const Package> packages();
const Package& package_named(const std::string& name);

// Programs that send a run to trackers while it trains, one process for each tracker. They read the files of
// the run, so a tracker that fails or hangs never delays it. They end when the run ends, even if it is
// killed.
class Senders {
 public:
  // `config` is the configuration that trackers show, a JSON object. Must be called after log.txt tells that
  // the run has begun or is resumed.
  Senders(const std::filesystem::path& run, const std::string& config, const std::vector<std::string>& names);
  ~Senders();
  Senders(const Senders&) = delete;
  Senders& operator=(const Senders&) = delete;

  // Must be called after log.txt tells how the run has ended. Waits until everything is sent, for a limited
  // time.
  void finish();
  // Returns messages for the user since the last call.
  std::vector<std::string> notes();

 private:
  struct Sender {
    const Package* package;
    pid_t process;
    bool is_shown = false;  // the user knows where
  };

  // Notes the senders that have ended, or end before the deadline.
  void check(std::chrono::steady_clock::time_point deadline);
  // Notes where the run is shown, while it trains: a package that is installed sends it without being asked.
  void tell_where();

  const std::filesystem::path run_;
  const std::chrono::seconds limit_;  // for the time after the end of the run
  std::vector<Sender> running_;
  std::vector<std::string> notes_;
  int alive_ = -1;  // write end of a pipe, which closes when this process ends
};

// Makes the next sender begin a new run at each tracker, because this run begins again.
void forget_sent(const std::filesystem::path& run);

// Becomes the program that sends the rest of a run to a tracker, and follows the run if it still trains.
// Throws UserError if it cannot be started.
[[noreturn]] void send_run(const std::filesystem::path& run, const std::string& config,
                           const std::string& name);

// A place where a tracker shows a run: an address, or the command that shows or uploads it.
struct Shown {
  std::string tracker, where;
};
std::vector<Shown> shown_at(const std::filesystem::path& run);

// Returns what is wrong with the address of an MLflow server, or "". `given` names the setting. A password in
// the address would be written to files.
std::string problem_of_mlflow_uri(const std::string& given, const std::string& uri);

}  // namespace dpo::track
