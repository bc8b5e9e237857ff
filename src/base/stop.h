#pragma once

#include <exception>

namespace dpo {

// Makes SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless SIGHUP is ignored) set a flag instead of ending the
// process, so that it can finish cleanly. Signals in the next two seconds are ignored, because one request
// may arrive as several signals. A later signal ends the process.
void handle_stop_signals();

// Ignores SIGPIPE, so that a run that writes its files continues when nobody reads its output any more.
void ignore_closed_pipes();

// Returns true if a signal of handle_stop_signals arrived.
bool stop_requested();

// Thrown by work that ends early because a signal requested it. The exit status then is kStopped.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace dpo
