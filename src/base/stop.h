#pragma once

#include <exception>

namespace dpo {

// From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless it is ignored) set a flag instead of ending the
// process, so that it can finish cleanly. Another signal two seconds later or more ends it: one request may
// arrive as several signals.
void handle_stop_signals();

// From now on output that nobody reads any more does not end the process, whose files are what counts.
void ignore_closed_pipes();

// Whether such a signal arrived.
bool stop_requested();

// Thrown by work that ends early because a signal asked for it; the exit status says so.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace dpo
