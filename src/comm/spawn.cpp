#include "comm/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/stop.h"
#include "comm/sockets.h"

namespace dpo::comm {
namespace {

// The thread that waits for signals.
std::atomic<pthread_t> waiting_thread;

// The kernel delivers a signal to any thread that does not block it, such as one that a library started. That
// thread passes it on.
void pass_on(int signal) { ::pthread_kill(waiting_thread, signal); }

// Blocks the signals, which only wait() receives, so that none is missed.
class BlockedSignals {
 public:
  BlockedSignals() {
    waiting_thread = ::pthread_self();
    ::sigemptyset(&set_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaddset(&set_, kSignals[i]);
      struct sigaction action = {};
      action.sa_handler = pass_on;
      action.sa_flags = SA_RESTART;
      ::sigaction(kSignals[i], &action, &actions_[i]);
    }
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  void restore() const {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &actions_[i], nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  // Returns the next signal, or 0 after the timeout.
  int wait(std::chrono::milliseconds timeout) const {
    const timespec limit{timeout.count() / 1000, timeout.count() % 1000 * 1'000'000};
    const int signal = ::sigtimedwait(&set_, nullptr, &limit);
    return signal < 0 ? 0 : signal;
  }

 private:
  static constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGCHLD};

  sigset_t set_{}, before_{};
  std::array<struct sigaction, kSignals.size()> actions_{};  // before
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment_with(const Environment& added) {
  Environment all = this_environment();
  for (const auto& [name, value] : added) all[name] = value;
  std::vector<std::string> texts;
  for (const auto& [name, value] : all) texts.push_back(name + "=" + value);
  return texts;
}

// Starts a process in a separate process group, so that Ctrl-C only reaches this process, which forwards it
// once.
pid_t start(const Process& process, const BlockedSignals& signals, int signal_at_our_death) {
  std::vector<std::string> arguments = process.command, variables = environment_with(process.variables);
  const std::vector<char*> argv = pointers(arguments), environment = pointers(variables);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw UserError(fmt::format("cannot start {}: {}", arguments[0], std::strerror(errno)));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, signal_at_our_death);
  if (::getppid() != parent) ::_exit(kTrainingFailed);
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  signals.restore();
  ::execve(argv[0], argv.data(), environment.data());
  ::_exit(127);
}

// Returns false only if the process is known to have no handler for the signal.
bool catches(pid_t process, int signal) {
  constexpr std::string_view kCaught = "SigCgt:";
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kCaught))
      return std::stoull(line.substr(kCaught.size()), nullptr, 16) >> (signal - 1) & 1;
  return true;
}

// Counts the processes below `process` that have a handler for the signal.
int count_catching(pid_t process, int signal) {
  int count = 0;
  std::error_code ended;
  std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", process), ended);
  for (; !ended && thread != std::filesystem::directory_iterator(); thread.increment(ended)) {
    std::ifstream children(thread->path() / "children");
    for (pid_t child = 0; children >> child;)
      count += (catches(child, signal) ? 1 : 0) + count_catching(child, signal);
  }
  return count;
}

bool is_list_of_children_known() { return std::filesystem::exists("/proc/thread-self/children"); }

// Converts the status of a process. mpirun exits with 128 + signal if a signal killed a rank; 143 is also the
// status of ranks that stopped in order.
int exit_status_of(int status) {
  if (!WIFEXITED(status)) return kTrainingFailed;
  const int code = WEXITSTATUS(status);
  return code > 128 && code != kStopped ? kTrainingFailed : code;
}

class Children {
 public:
  Children(Forwarding forwarding, std::chrono::milliseconds grace) : forwarding_(forwarding), grace_(grace) {}
  ~Children() {
    send(SIGKILL);
    while (!running_.empty() && reap(0)) {
    }
  }

  void add(pid_t child, int ranks) { running_.push_back({child, ranks}); }

  int wait_for_all(const BlockedSignals& signals) {
    while (!running_.empty()) {
      const int signal = signals.wait(std::chrono::milliseconds(status_ == 0 ? 60'000 : 100));
      if (signal != 0 && signal != SIGCHLD) stop(forwarding_ == Forwarding::as_usr1 ? SIGUSR1 : signal);
      while (!running_.empty() && reap(WNOHANG)) {
      }
      if (status_ != 0 && Clock::now() > deadline_) send(SIGKILL);
    }
    return status_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Child {
    pid_t process;
    int ranks;

    bool is_ready_for(int signal) const {
      if (ranks == 0) return catches(process, signal);
      return !is_list_of_children_known() || count_catching(process, signal) >= ranks;
    }
  };

  void send(int signal) {
    for (const Child& child : running_) ::kill(child.process, signal);
  }

  // Forwards a stop signal once all processes are ready for it. mpirun ignores a signal that arrives before
  // it has started the ranks, and a rank without a handler would die as if it had failed.
  void stop(int signal) {
    const auto is_ready = [&](const Child& child) { return child.is_ready_for(signal); };
    if (std::ranges::all_of(running_, is_ready)) return send(signal);
    if (status_ == 0) end_as(kStopped);
    send(SIGTERM);
  }

  void end_as(int status) {
    status_ = status;
    deadline_ = Clock::now() + grace_;
  }

  bool reap(int options) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, options);
    if (ended <= 0) return ended < 0 && errno == EINTR;
    std::erase_if(running_, [&](const Child& child) { return child.process == ended; });
    const int code = exit_status_of(status);
    if (code != 0 && status_ == 0) end_as(code);
    return true;
  }

  Forwarding forwarding_;
  std::chrono::milliseconds grace_;
  std::vector<Child> running_;
  int status_ = 0;              // of the first process that failed
  Clock::time_point deadline_;  // for the remaining processes
};

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string folders = path ? path : "/usr/bin";
  for (std::size_t start = 0; start <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', start), folders.size());
    const std::filesystem::path file = std::filesystem::path(folders.substr(start, end - start)) / name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    start = end + 1;
  }
  throw UserError(
      fmt::format("{} is not in the PATH, and is needed to start several processes without a GPU for each; "
                  "install openmpi-bin or load your cluster's module",
                  name));
}

}  // namespace

int start_and_wait(const std::vector<Process>& processes, Forwarding forwarding,
                   std::chrono::milliseconds grace) {
  const BlockedSignals signals;
  Children children(forwarding, grace);
  // mpirun ends its ranks on SIGTERM.
  const int at_our_death = forwarding == Forwarding::as_usr1 ? SIGTERM : SIGKILL;
  for (const Process& process : processes) children.add(start(process, signals, at_our_death), process.ranks);
  return children.wait_for_all(signals);
}

std::vector<Process> local_ranks(const std::vector<std::string>& command, int size, std::uint16_t port) {
  std::vector<Process> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back({command,
                     {{"RANK", std::to_string(rank)},
                      {"LOCAL_RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(size)},
                      {"LOCAL_WORLD_SIZE", std::to_string(size)},
                      {"MASTER_ADDR", kThisMachine},
                      {"MASTER_PORT", std::to_string(port)}}});
  return ranks;
}

Process mpirun_ranks(const std::vector<std::string>& command, int size) {
  std::vector<std::string> arguments = {
      find_program("mpirun"), "-n", std::to_string(size), "--oversubscribe", "--bind-to", "none", "--quiet"};
  if (::geteuid() == 0) arguments.emplace_back("--allow-run-as-root");
  arguments.insert(arguments.end(), command.begin(), command.end());
  return {.command = std::move(arguments), .ranks = size};
}

}  // namespace dpo::comm
