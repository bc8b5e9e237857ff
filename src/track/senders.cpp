#include "track/senders.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/memory_file.h"
#include "base/open_file.h"
#include "base/parse_json.h"
#include "base/shell.h"
#include "base/utf8.h"
#include "track/program.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int kNoPackage = 3;  // exit status of the program
constexpr int kEndOfRun = 3;   // descriptor of the program
constexpr pid_t kNotStarted = -1;

constexpr std::array kPackages = {
    Package{"wandb", "Weights & Biases"},
    Package{"mlflow", "MLflow"},
    Package{"trackio", "trackio"},
    Package{"swanlab", "SwanLab"},
};

fs::path file_of(const fs::path& run, const std::string& name, const char* ending) {
  return run / fmt::format("track-{}.{}", name, ending);
}

// Returns the program. Its last line calls main() with the configuration, so it is in no argument or file.
std::string script_for(const std::string& config) {
  const auto ascii = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                                     nlohmann::json::error_handler_t::replace);
  };
  const std::string config_in_ascii =
      nlohmann::ordered_json::parse(config).dump(-1, ' ', /*ensure_ascii=*/true);
  return fmt::format("{}\nmain({})\n", embedded_files().front().second, ascii(config_in_ascii));
}

// Settings of posix_spawn, which copies no memory, unlike fork in a process with a large model.
struct Spawn {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  Spawn() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
};

// Returns the arguments of python3, which reads the program from its stdin. They point into `words`.
std::vector<char*> python_arguments(std::vector<std::string>& words) {
  words.insert(words.begin(), {"python3", "-"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

// Starts python3 in the background, where it gets no signals of the terminal. Returns kNotStarted if there is
// none.
pid_t start(const std::string& script, std::vector<std::string> words, int output, int end_of_run) {
  const MemoryFile program(script);
  const std::vector<char*> arguments = python_arguments(words);
  Spawn spawn;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setflags(&spawn.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  posix_spawn_file_actions_adddup2(&spawn.files, program.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, output, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, end_of_run, kEndOfRun);
  posix_spawn_file_actions_addclosefrom_np(&spawn.files, kEndOfRun + 1);
  pid_t process = kNotStarted;
  const int problem =
      ::posix_spawnp(&process, arguments[0], &spawn.files, &spawn.attributes, arguments.data(), environ);
  return problem == 0 ? process : kNotStarted;
}

// Returns the exit status of a process, 128 + N after signal N.
int exit_status_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Returns the exit status of a process, or nullopt if it has not ended before the deadline.
std::optional<int> wait_until(pid_t process, Clock::time_point deadline) {
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(process, &status, WNOHANG);
    if (ended == process) return exit_status_of(status);
    if (ended < 0 && errno != EINTR) return 1;
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Returns the last line of a log for a message. A server may have sent it, so it can have any length and
// control characters of terminals.
std::string last_line(const fs::path& log) {
  constexpr std::size_t kMost = 500;
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  if (last.empty()) return "it ended without a message";
  if (last.size() > kMost) last = last.substr(0, kMost) + "...";
  std::ranges::replace_if(
      last, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return replace_invalid_utf8(last);
}

seconds time_limit() {
  constexpr seconds kUsual{30};
  const char* const given = std::getenv("DPO_TRACKER_SECONDS");
  const long long chosen = given ? std::atoll(given) : 0;
  return chosen > 0 ? seconds(chosen) : kUsual;
}

std::string command_to_send(const fs::path& run, const Package& package) {
  return fmt::format("dpo track {} --to {}", shell_command({run.string()}), package.name);
}

std::string note_of_missing(const fs::path& run, const Package& package) {
  const std::string title = package.title, name = package.name;
  return fmt::format(
      "note: the run is not sent to {}, because there is no python3 with the package {}; with it, '{}' sends "
      "the run, now or later{}",
      title, name, command_to_send(run, package),
      name == "wandb" ? ", and wandb.enabled=false turns this note off" : "");
}

std::string note_of_failure(const fs::path& run, const Package& package) {
  const fs::path log = file_of(run, package.name, "log");
  return fmt::format("warning: {}: {} ({}); '{}' sends what is missing", package.title, last_line(log),
                     log.string(), command_to_send(run, package));
}

}  // namespace

std::span<const Package> packages() { return kPackages; }

const Package& package_named(const std::string& name) {
  return *std::ranges::find_if(kPackages, [&](const Package& package) { return package.name == name; });
}

Senders::Senders(const fs::path& run, const std::string& config, const std::vector<std::string>& names)
    : run_(run), limit_(time_limit()) {
  int ends[2];
  if (names.empty() || ::pipe2(ends, O_CLOEXEC) != 0) return;
  alive_ = ends[1];
  const std::string script = script_for(config);
  for (const std::string& name : names) try {
      const Package& package = package_named(name);
      const int log = open_to_write(file_of(run, name, "log"), O_WRONLY | O_CREAT | O_APPEND, Owner::anyone);
      if (log < 0) throw UserError("its log cannot be written");
      const std::vector<std::string> arguments = {run.string(), name, std::to_string(kEndOfRun),
                                                  std::to_string(limit_.count())};
      const pid_t process = start(script, arguments, log, ends[0]);
      ::close(log);
      if (process == kNotStarted)
        notes_.push_back(note_of_missing(run, package));
      else
        running_.push_back({.package = &package, .process = process});
    } catch (const std::exception& error) {  // for example, a link in place of the log
      notes_.push_back(fmt::format("warning: {}: {}", package_named(name).title, error.what()));
    }
  ::close(ends[0]);
}

Senders::~Senders() {
  if (alive_ >= 0) ::close(alive_);
}

void Senders::finish() {
  if (alive_ >= 0) ::close(std::exchange(alive_, -1));
  constexpr seconds kMore{2};  // the programs end themselves first, and then say why
  check(Clock::now() + limit_ + kMore);
  for (const Sender& sender : running_) {  // not even python3 has reacted
    ::kill(-sender.process, SIGKILL);
    ::waitpid(sender.process, nullptr, 0);
    notes_.push_back(note_of_failure(run_, *sender.package));
  }
  running_.clear();
}

std::vector<std::string> Senders::notes() {
  check(Clock::now());
  tell_where();
  return std::exchange(notes_, {});
}

void Senders::tell_where() {
  if (std::ranges::all_of(running_, &Sender::is_shown)) return;
  for (const Shown& shown : shown_at(run_))
    for (Sender& sender : running_)
      if (!sender.is_shown && sender.package->name == shown.tracker) {
        sender.is_shown = true;
        notes_.push_back(
            fmt::format("note: the run is tracked by {}: {}{}", sender.package->title, shown.where,
                        shown.tracker == "wandb" ? " (wandb.enabled=false turns this off)" : ""));
      }
}

void Senders::check(Clock::time_point deadline) {
  std::erase_if(running_, [&](const Sender& sender) {
    const std::optional<int> status = wait_until(sender.process, deadline);
    if (status == kNoPackage)
      notes_.push_back(note_of_missing(run_, *sender.package));
    else if (status && *status != 0)
      notes_.push_back(note_of_failure(run_, *sender.package));
    return status.has_value();
  });
}

void forget_sent(const fs::path& run) {
  for (const Package& package : kPackages) {
    std::error_code none;
    fs::remove(file_of(run, package.name, "json"), none);
  }
}

void send_run(const fs::path& run, const std::string& config, const std::string& name) {
  const MemoryFile program(script_for(config));
  std::vector<std::string> words = {run.string(), name};
  const std::vector<char*> arguments = python_arguments(words);
  ::dup2(program.descriptor(), STDIN_FILENO);
  ::execvp(arguments[0], arguments.data());
  throw UserError(
      fmt::format("cannot start python3, which sends runs to trackers: {}", std::strerror(errno)));
}

std::vector<Shown> shown_at(const fs::path& run) {
  std::vector<Shown> all;
  for (const Package& package : kPackages) try {
      const auto state =
          parse_json(read_text_file(file_of(run, package.name, "json"), "the tracker's state"));
      const auto where = state.find("where");
      if (where != state.end() && where->is_string())
        all.push_back({package.name, where->get<std::string>()});
    } catch (const std::exception&) {  // not sent to this tracker
    }
  return all;
}

std::string problem_of_mlflow_uri(const std::string& given, const std::string& uri) {
  const std::size_t scheme = uri.find("://");
  const std::size_t host = scheme == uri.npos ? 0 : scheme + 3;
  const std::size_t end = uri.find('/', host);
  // Passwords of databases may contain '/'. The address of a file begins with it.
  const bool is_database = scheme != uri.npos && end != host && !uri.starts_with("http");
  if (uri.substr(host, is_database ? uri.npos : end - host).find('@') == uri.npos) return "";
  return fmt::format(
      "{}: the address contains a user name or password, which would be written to the run folder; set "
      "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead",
      given);
}

}  // namespace dpo::track
