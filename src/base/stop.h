#pragma once

#include <exception>

namespace dpo {

// Makes SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless it is ignored) set a flag instead of ending the process,
// so that it can finish cleanly. Another signal at least two seconds later ends it. Earlier ones are ignored,
// because one request may arrive as several signals.
void handle_stop_signals();

// Ignores SIGPIPE, so that output that is no longer read does not end the process; its files are what
// matters.
void ignore_closed_pipes();

// Returns true if a signal of handle_stop_signals arrived.
bool stop_requested();

// Thrown by work that ends early because a signal requested it. The exit status then is kStopped.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace dpo
