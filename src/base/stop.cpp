#include "base/stop.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <initializer_list>

#include "base/exit_status.h"
#include "base/terminal.h"

namespace dpo {
namespace {

// One request may arrive twice: from a job scheduler and from the process that started this one.
constexpr std::time_t kOneRequest = 2;  // seconds

// Written by the signal handler.
volatile std::sig_atomic_t requested = 0;
volatile std::time_t requested_at = 0;

void remember(int) {
  const std::time_t now = std::time(nullptr);
  if (requested == 0) {
    requested_at = now;
    requested = 1;
  } else if (now - requested_at >= kOneRequest) {
    Terminal::clear_for_exit();
    std::_Exit(kStopped);
  }
}

}  // namespace

void handle_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, remember);
  // SIGHUP means that the terminal is gone. It stays ignored if it was, as under 'nohup'.
  if (std::signal(SIGHUP, remember) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

void ignore_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

bool stop_requested() { return requested != 0; }

}  // namespace dpo
