#pragma once

#include <exception>

namespace dpo {

// The exit status after such a stop, as the shell reports it for SIGTERM.
inline constexpr int kExitStopped = 143;

// From now on SIGINT, SIGTERM and SIGUSR1 do not end the process at once but are remembered, so that the work
// under way can end in order. Another one, two seconds later or more, ends the process: one request may come
// as several signals.
void stop_in_order();

// Whether such a signal came.
bool stop_requested();

// Thrown by work that ends early because a signal asked for it; the exit status says so.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace dpo
