#include "run/distributed_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReady = "ready";
constexpr const char* kFailed = "failed";

std::string done_file(int rank) { return fmt::format("part-{}.done", rank); }
std::string failed_file(int rank) { return fmt::format("part-{}.failed", rank); }

// Thrown when `stop` was requested.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled while other ranks had not finished their parts") {}
};

// Files through which the ranks report their progress, in a folder next to the one that they write. It is
// named like an incomplete checkpoint, so that a resumed run removes one that a killed run left.
class StatusFiles {
 public:
  StatusFiles(const fs::path& temporary, const std::stop_token& stop)
      : folder_(temporary.string() + ".signs"), stop_(stop) {}

  void create() const {
    if (!fs::create_directory(folder_)) throw UserError(fmt::format("{} already exists", folder_.string()));
  }
  void remove() const {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // Writes the file in one step: a rank that sees it sees the whole message.
  void write(const std::string& name, const std::string& message = "") const {
    write_file(folder_ / name, message);
  }
  // Falls back to an empty file, which may still fit on a full disk. Returns whether other ranks will see the
  // file.
  bool try_to_write_failure(const std::string& name, const std::string& message) const noexcept {
    try {
      write(name, message);
      return true;
    } catch (const std::exception&) {
      const int descriptor = ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor < 0) return errno == EEXIST;
      ::close(descriptor);
      return true;
    }
  }

  // Waits until `condition` is true for the names of the files.
  template <class Condition>
  void wait_until(const Condition& condition) const {
    using std::chrono::milliseconds;
    constexpr milliseconds kFirst(5), kLongest(200);
    for (milliseconds pause = kFirst; !condition(names()); pause = std::min(2 * pause, kLongest)) {
      if (stop_.stop_requested()) throw Cancelled();
      std::this_thread::sleep_for(pause);
    }
  }

  void throw_failure(const std::string& name) const {
    const std::string message = read_text_file(folder_ / name, "the failure of a rank");
    throw UserError(message.empty() ? "a rank failed without a message: is the disk full?" : message);
  }

 private:
  // Lists the folder because a network file system may answer for a single name from its cache. Returns an
  // empty set if there is no folder.
  std::set<std::string> names() const {
    std::set<std::string> names;
    std::error_code absent;
    for (fs::directory_iterator entry(folder_, absent), end; !absent && entry != end; entry.increment(absent))
      names.insert(entry->path().filename().string());
    return names;
  }

  fs::path folder_;
  const std::stop_token& stop_;
};

// Runs `work` and prefixes its errors with the rank.
void do_as(int rank, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    throw UserError(fmt::format("rank {}: {}", rank, error.what()));
  }
}

void wait_for_parts(const StatusFiles& status, int ranks) {
  status.wait_until([&](const std::set<std::string>& names) {
    int done = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (names.contains(failed_file(rank))) status.throw_failure(failed_file(rank));
      done += names.contains(done_file(rank)) ? 1 : 0;
    }
    return done == ranks;
  });
}

void write_as_rank_0(const fs::path& folder, const fs::path& temporary, const StatusFiles& status, int ranks,
                     const RankTasks& tasks) {
  status.create();
  try {
    AtomicFolder whole(folder, temporary);
    do_as(0, [&] { tasks.begin(temporary); });
    status.write(kReady);
    do_as(0, [&] { tasks.own_part(temporary); });
    status.write(done_file(0));
    wait_for_parts(status, ranks);
    do_as(0, [&] { tasks.end(temporary); });
    whole.commit();
  } catch (const std::exception& error) {
    status.try_to_write_failure(kFailed, error.what());  // stays until the run is resumed
    throw;
  }
  status.remove();
}

// Lists the folder first, so that a network file system looks again instead of answering from its cache.
bool exists_now(const fs::path& folder, const std::string& name) {
  std::error_code absent;
  for (const fs::path& listed : {folder.parent_path(), folder}) fs::directory_iterator(listed, absent);
  return fs::exists(folder / name, absent);
}

void write_as_other_rank(const fs::path& folder, const std::string& marker, const fs::path& temporary,
                         const StatusFiles& status, int rank, const RankTasks& tasks) {
  const auto seen = [&](const std::set<std::string>& names, const std::string& name) {
    if (names.contains(kFailed)) status.throw_failure(kFailed);
    return names.contains(name);
  };
  status.wait_until([&](const auto& names) { return seen(names, kReady); });
  try {
    do_as(rank, [&] { tasks.own_part(temporary); });
    status.write(done_file(rank));
  } catch (const std::exception& error) {
    // This failure may be a consequence of another rank's, so rank 0's message is thrown below instead.
    if (!status.try_to_write_failure(failed_file(rank), error.what())) throw;
  }
  status.wait_until([&](const auto& names) {
    return !seen(names, kReady);
  });  // removed together with the other status files
  if (!exists_now(folder, marker))
    throw UserError(fmt::format("{} was not completed by rank 0", folder.string()));
}

}  // namespace

void write_on_all_ranks(const fs::path& folder, const std::string& marker, const RankId& self,
                        const RankTasks& tasks, const std::stop_token& stop) {
  if (self.ranks == 1) {
    AtomicFolder whole(folder);
    tasks.begin(whole.temporary());
    tasks.own_part(whole.temporary());
    tasks.end(whole.temporary());
    return whole.commit();
  }
  const fs::path temporary = fmt::format("{}.tmp.{}", folder.string(), self.launch_id);
  const StatusFiles status(temporary, stop);
  if (self.rank == 0)
    write_as_rank_0(folder, temporary, status, self.ranks, tasks);
  else
    write_as_other_rank(folder, marker, temporary, status, self.rank, tasks);
}

std::string check_shared(const fs::path& run, comm::Group& all, at::Device device) {
  all.barrier();  // rank 0 may have renamed or cleaned up the folder of an earlier run
  std::random_device random;
  const auto drawn = static_cast<std::int64_t>((std::uint64_t{random()} << 31) ^ random());
  const at::Tensor number = at::full({1}, drawn, at::TensorOptions().dtype(at::kLong).device(device));
  all.broadcast(number, 0).wait();
  const std::string launch_id = fmt::format("{:x}", number.item<std::int64_t>());
  const std::string name = fmt::format(".start-{}", launch_id);
  bool seen = true;
  if (all.rank() == 0) {
    try {
      AtomicFile(run / name).commit();
    } catch (const std::exception&) {
      seen = false;  // reported below, because the others wait
    }
  }
  all.barrier();
  if (all.rank() != 0) seen = exists_now(run, name);
  const at::Tensor missing = at::full({1}, seen ? 0 : 1, number.options());
  all.all_reduce(missing).wait();
  std::error_code ignored;
  if (all.rank() == 0) fs::remove(run / name, ignored);
  if (const auto ranks = missing.item<std::int64_t>(); ranks > 0)
    throw UserError(
        fmt::format("{}: {} of {} ranks do not see what rank 0 writes there; the run folder must be on a "
                    "file system that all machines share (local_run_dir, local_dirs)",
                    run.string(), ranks, all.size()));
  return launch_id;
}

}  // namespace dpo::run
