#include "run/joint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

std::string done_sign(int rank) { return fmt::format("part-{}.done", rank); }
std::string failed_sign(int rank) { return fmt::format("part-{}.failed", rank); }

// Waiting was ended from outside.
class GivenUp : public std::runtime_error {
 public:
  GivenUp() : std::runtime_error("it was given up while other ranks were not done with their parts") {}
};

// Files by which the ranks say how far they are, in a folder beside the one that they write. Its name has the
// form of a half-written checkpoint, so that a resumed run removes what a killed one left.
class Signs {
 public:
  Signs(const fs::path& temporary, const std::stop_token& stop)
      : folder_(temporary.string() + ".signs"), stop_(stop) {}

  void make() const {
    if (!fs::create_directory(folder_)) throw UserError(fmt::format("{} is there already", folder_.string()));
  }
  void remove() const {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // Whoever sees the sign sees all of its words.
  void leave(const std::string& name, const std::string& words = "") const {
    AtomicFile file(folder_ / name);
    file.write(words);
    file.commit();
  }
  // On a full disk there may be room for the name alone. Returns whether the others will see it.
  bool leave_if_possible(const std::string& name, const std::string& words) const noexcept {
    try {
      leave(name, words);
      return true;
    } catch (const std::exception&) {
      const int descriptor = ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      if (descriptor >= 0) ::close(descriptor);
      return descriptor >= 0;
    }
  }

  // Waits until `found` says that it has what it looks for among the names of the signs.
  template <class Found>
  void wait_until(const Found& found) const {
    using std::chrono::milliseconds;
    constexpr milliseconds kFirst(5), kLongest(200);
    for (milliseconds pause = kFirst; !found(names()); pause = std::min(2 * pause, kLongest)) {
      if (stop_.stop_requested()) throw GivenUp();
      std::this_thread::sleep_for(pause);
    }
  }

  void throw_words_of(const std::string& name) const {
    const std::string words = read_text_file(folder_ / name, "a sign");
    throw UserError(words.empty() ? "a rank failed, and had no room to say why: is the disk full?" : words);
  }

 private:
  // By listing the folder: a network file system answers for a single name from memory. Without a folder,
  // nothing.
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

// Says in what goes wrong whose work it was.
void do_as(int rank, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    throw UserError(fmt::format("rank {}: {}", rank, error.what()));
  }
}

void wait_for_parts(const Signs& signs, int ranks) {
  signs.wait_until([&](const std::set<std::string>& names) {
    int done = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (names.contains(failed_sign(rank))) signs.throw_words_of(failed_sign(rank));
      done += names.contains(done_sign(rank)) ? 1 : 0;
    }
    return done == ranks;
  });
}

void write_as_first(const fs::path& folder, const fs::path& temporary, const Signs& signs, int ranks,
                    const JointWork& work) {
  signs.make();
  try {
    AtomicFolder whole(folder, temporary);
    do_as(0, [&] { work.begin(temporary); });
    signs.leave(kReady);
    do_as(0, [&] { work.own_part(temporary); });
    signs.leave(done_sign(0));
    wait_for_parts(signs, ranks);
    do_as(0, [&] { work.end(temporary); });
    whole.commit();
  } catch (const std::exception& error) {
    signs.leave_if_possible(kFailed, error.what());  // and stays, until the run is resumed
    throw;
  }
  signs.remove();
}

// Whether a file is there now: a network file system looks again where its folder is listed.
bool is_there(const fs::path& folder, const std::string& name) {
  std::error_code absent;
  for (const fs::path& listed : {folder.parent_path(), folder}) fs::directory_iterator(listed, absent);
  return fs::exists(folder / name, absent);
}

void write_as_other(const fs::path& folder, const std::string& marker, const fs::path& temporary,
                    const Signs& signs, int rank, const JointWork& work) {
  const auto seen = [&](const std::set<std::string>& names, const std::string& name) {
    if (names.contains(kFailed)) signs.throw_words_of(kFailed);
    return names.contains(name);
  };
  signs.wait_until([&](const auto& names) { return seen(names, kReady); });
  try {
    do_as(rank, [&] { work.own_part(temporary); });
    signs.leave(done_sign(rank));
  } catch (const std::exception& error) {
    // What rank 0 then says is thrown below: this may be a consequence of another rank's failure.
    if (!signs.leave_if_possible(failed_sign(rank), error.what())) throw;
  }
  signs.wait_until([&](const auto& names) { return !seen(names, kReady); });  // removed with the others
  if (!is_there(folder, marker))
    throw UserError(fmt::format("{} was not completed by rank 0", folder.string()));
}

}  // namespace

void write_together(const fs::path& folder, const std::string& marker, const Member& who,
                    const JointWork& work, const std::stop_token& stop) {
  if (who.ranks == 1) {
    AtomicFolder whole(folder);
    work.begin(whole.temporary());
    work.own_part(whole.temporary());
    work.end(whole.temporary());
    return whole.commit();
  }
  const fs::path temporary = fmt::format("{}.tmp.{}", folder.string(), who.start);
  const Signs signs(temporary, stop);
  if (who.rank == 0)
    write_as_first(folder, temporary, signs, who.ranks, work);
  else
    write_as_other(folder, marker, temporary, signs, who.rank, work);
}

std::string check_shared(const fs::path& run, comm::Group& all, at::Device device) {
  std::random_device random;
  const auto drawn = static_cast<std::int64_t>((std::uint64_t{random()} << 31) ^ random());
  const at::Tensor number = at::full({1}, drawn, at::TensorOptions().dtype(at::kLong).device(device));
  all.broadcast(number, 0).wait();
  const std::string word = fmt::format("{:x}", number.item<std::int64_t>());
  const std::string name = fmt::format(".start-{}", word);
  bool seen = true;
  if (all.rank() == 0) {
    try {
      AtomicFile(run / name).commit();
    } catch (const std::exception&) {
      seen = false;  // said below, since the others wait
    }
  }
  all.barrier();
  if (all.rank() != 0) seen = is_there(run, name);
  const at::Tensor missing = at::full({1}, seen ? 0 : 1, number.options());
  all.all_reduce(missing).wait();
  std::error_code ignored;
  if (all.rank() == 0) fs::remove(run / name, ignored);
  if (const auto ranks = missing.item<std::int64_t>(); ranks > 0)
    throw UserError(
        fmt::format("{}: {} of {} ranks do not see what rank 0 writes there; the run folder must be on a "
                    "file system that "
                    "all machines share (local_run_dir, local_dirs)",
                    run.string(), ranks, all.size()));
  return word;
}

}  // namespace dpo::run
