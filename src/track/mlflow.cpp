#include "track/mlflow.h"

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/run_lock.h"
#include "track/append_file.h"
#include "track/clock.h"
#include "track/mlflow_sender.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;

std::int64_t milliseconds_since_1970() { return static_cast<std::int64_t>(seconds_since_1970() * 1000); }

std::string random_tag() {
  std::random_device device;
  std::string tag;
  for (int i = 0; i < 4; ++i) tag += fmt::format("{:08x}", device());
  return tag;
}

const char* status_name(int exit_status) {
  if (exit_status == 0) return "FINISHED";
  return exit_status == kStopped ? "KILLED" : "FAILED";
}

// Moves a run to another server, which gets everything from the beginning.
void move_to(MlflowRun& run, const std::string& uri) {
  if (run.uri == uri) return;
  run.uri = uri;
  run.sent = 0;
  run.id = run.experiment_id = run.artifacts = "";
}

std::string page_of(const MlflowRun& run) {
  return fmt::format("{}/#/experiments/{}/runs/{}", run.uri, run.experiment_id, run.id);
}

std::string first_note(const MlflowSettings& settings) {
  return fmt::format(
      "MLflow: metrics, the configuration and samples (prompts and responses, with sample_during_eval) are "
      "sent to {} ({})",
      settings.uri.substr(0, settings.uri.find('/', settings.uri.find("://") + 3)),
      settings.from_environment ? "MLFLOW_TRACKING_URI" : "mlflow.tracking_uri");
}

bool has_rows(const History& history) {
  bool found = false;
  if (history) history(0, [&](const Row&) { found = true; });
  return found;
}

class Mlflow : public Tracker {
 public:
  // `last` is the last row before the run was resumed. `known` are rows in the queue that the run may log
  // again.
  Mlflow(const Settings& settings, const MlflowRun& run, std::unique_ptr<AppendFile> queue, Row last,
         std::set<RowName> known)
      : settings_(settings),
        file_(std::move(queue)),
        last_(std::move(last)),
        known_(std::move(known)),
        end_(file_->written()),
        notes_{first_note(*settings.mlflow)},
        sender_(settings.folder, run, &cancelled_),
        thread_([this] { send_all(); }) {}

  ~Mlflow() override {
    cancelled_ = true;
    join();
  }

  bool add(const Row& row) override {
    const Row fresh = without_repeated(row, last_);
    last_ = row;
    if (known_.contains(name_of(fresh))) return file_->is_written();
    return append(metrics_line(fresh, milliseconds_since_1970()));
  }

  // MLflow has no histograms.
  bool add_histograms(std::int64_t, std::span<const Distribution>) override { return file_->is_written(); }

  bool add_samples(std::int64_t step, std::span<const SampleText> samples) override {
    return append(samples_line(step, samples));
  }

  bool flush() override { return append(""); }

  bool finish(int exit_status) override {
    const bool written = append(status_line(status_name(exit_status), milliseconds_since_1970()));
    {
      std::unique_lock lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
      changed_.wait_for(lock, settings_.mlflow->finish, [&] { return is_done_; });
    }
    cancelled_ = true;
    join();
    say_what_is_missing();
    return written;
  }

  std::vector<std::string> notes() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, {});
  }

 private:
  bool append(const std::string& lines) {
    file_->append(lines);
    const std::lock_guard lock(mutex_);
    end_ = file_->written();
    changed_.notify_all();
    return file_->is_written();
  }

  // Body of the sending thread. The end of the run ends its waits, and the first failure after that ends the
  // thread.
  void send_all() {
    const auto interval = settings_.mlflow->interval;
    std::chrono::milliseconds retry = settings_.mlflow->retry;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || end_ > sender_.sent(); });
      if (cancelled_ || end_ <= sender_.sent()) break;
      const std::uint64_t end = end_;
      lock.unlock();
      const std::string failure = try_to_send(end);
      lock.lock();
      if (failure.empty()) {
        retry = settings_.mlflow->retry;
        if (sender_.sent() == end_) changed_.wait_for(lock, interval, [&] { return is_ending_; });
        continue;
      }
      failure_ = failure;
      if (is_ending_) break;
      say_once(
          said_failure_,
          fmt::format("warning: MLflow at {}: {}; training continues, and what it logs is kept in {} and "
                      "sent later",
                      settings_.mlflow->uri, failure, mlflow_queue(settings_.folder).string()));
      changed_.wait_for(lock, retry, [&] { return is_ending_; });
      retry = std::min(2 * retry, settings_.mlflow->longest_retry);
    }
    is_done_ = true;
    changed_.notify_all();
  }

  // Returns the reason of a failure, or "".
  std::string try_to_send(std::uint64_t end) try {
    if (!lock_) {  // 'dpo track' may be sending the earlier part of the queue
      lock_.emplace(settings_.folder / "mlflow");
      sender_.reload(end);
    }
    sender_.send_next(end);
    if (sender_.rejection().empty()) return "";
    const std::lock_guard lock(mutex_);
    say_once(said_rejection_,
             fmt::format("warning: MLflow at {} does not accept what this run logs: {}; training continues; "
                         "metrics.jsonl has it all",
                         settings_.mlflow->uri, sender_.rejection()));
    return "";
  } catch (const http::Cancelled&) {
    return "no answer yet";
  } catch (const std::exception& error) {
    return error.what();
  }

  void say_once(bool& said, const std::string& note) {
    if (!std::exchange(said, true)) notes_.push_back(note);
  }

  void join() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
    lock_.reset();
  }

  // Must be called after the thread has ended.
  void say_what_is_missing() {
    if (sender_.sent() < end_)
      notes_.push_back(
          fmt::format("warning: MLflow at {}: {}; {} values were not sent: 'dpo track {}' sends them",
                      settings_.mlflow->uri, failure_.empty() ? "no answer yet" : failure_,
                      sender_.remaining(), settings_.folder.string()));
    if (!sender_.rejection().empty())
      notes_.push_back(fmt::format("warning: MLflow at {} did not accept {}: {}", settings_.mlflow->uri,
                                   sender_.rejected(), sender_.rejection()));
  }

  const Settings settings_;
  const std::unique_ptr<AppendFile> file_;  // the queue
  Row last_;
  const std::set<RowName> known_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // The following are guarded by the mutex.
  std::uint64_t end_;  // bytes of the queue
  bool is_ending_ = false, is_done_ = false;
  bool said_failure_ = false, said_rejection_ = false;
  std::string failure_;
  std::vector<std::string> notes_;

  std::atomic<bool> cancelled_ = false;
  // The following belong to the thread while it runs.
  std::optional<RunLock> lock_;
  MlflowSender sender_;
  std::thread thread_;  // last member, because it uses all of the above
};

}  // namespace

std::unique_ptr<Tracker> open_mlflow(const Settings& settings, const History& history) {
  const MlflowSettings& mlflow = *settings.mlflow;
  const fs::path path = mlflow_queue(settings.folder);
  const std::int64_t now = milliseconds_since_1970();
  auto old = read_mlflow_run(settings.folder);
  // A run that was killed before its first checkpoint begins again, perhaps with other settings. MLflow
  // cannot replace parameters and values, so it gets another run.
  if (std::ifstream queue(path, std::ios::binary);
      settings.examples == 0 && !has_rows(history) && !is_start_of_run(queue, settings.config))
    old.reset();
  MlflowRun run = old.value_or(MlflowRun{.uri = mlflow.uri,
                                         .experiment = mlflow.experiment,
                                         .name = mlflow.name,
                                         .tag = random_tag(),
                                         .started = now});
  move_to(run, mlflow.uri);
  QueuedRows queued;
  if (std::ifstream file(path, std::ios::binary); old) queued = queued_rows(file);
  run.sent = std::min(run.sent, queued.bytes);
  try {  // before the queue, so that an old run does not get the rows of a new one
    write_mlflow_run(settings.folder, run);
  } catch (const std::exception&) {  // a full disk, which the queue reports too
  }
  auto queue = queued.bytes == 0 ? std::make_unique<AppendFile>(path, parameter_lines(settings.config))
                                 : std::make_unique<AppendFile>(path, queued.bytes);
  if (queued.bytes > 0) queue->append(status_line("RUNNING", now));
  Row last{.step = -1};
  if (history)
    history(0, [&](const Row& row) {
      const Row fresh = without_repeated(row, last);
      if (!queued.rows.contains(name_of(fresh))) queue->append(metrics_line(fresh, now));
      last = row;
    });
  // Earlier rows are not logged again, so they need not be remembered.
  std::erase_if(queued.rows, [&](const auto& row) { return row.first < last.step; });
  return std::make_unique<Mlflow>(settings, run, std::move(queue), std::move(last), std::move(queued.rows));
}

std::optional<std::string> mlflow_page(const fs::path& run) {
  const auto state = read_mlflow_run(run);
  if (!state || state->id.empty()) return std::nullopt;
  return page_of(*state);
}

MlflowSent send_mlflow_queue(const fs::path& run, const std::optional<std::string>& uri) {
  if (!read_mlflow_run(run))
    throw UserError(
        fmt::format("{}: no run that was sent to MLflow: there is no mlflow/run.json in it; a run is "
                    "sent if mlflow.tracking_uri or MLFLOW_TRACKING_URI is set",
                    run.string()));
  const RunLock lock(run / "mlflow");
  auto state = read_mlflow_run(run);
  std::error_code none;
  const std::uint64_t end = fs::exists(mlflow_queue(run), none) ? fs::file_size(mlflow_queue(run)) : 0;
  const std::string own = state->uri;
  if (uri) {
    move_to(*state, checked_mlflow_uri("--uri", *uri));
    state->sent = 0;
  }
  MlflowSender sender(run, *state, nullptr, state->uri == own);
  try {
    while (sender.sent() < end) sender.send_next(end);
  } catch (const MlflowUnavailable& error) {
    throw UserError(fmt::format("MLflow at {}: {}; {} values are left to send: try again later", state->uri,
                                error.what(), sender.remaining()));
  }
  if (!sender.rejection().empty())
    throw UserError(
        fmt::format("MLflow at {} did not accept {}: {}", state->uri, sender.rejected(), sender.rejection()));
  return {sender.sent_values(), page_of(sender.run()), lock.warning()};
}

}  // namespace dpo::track
