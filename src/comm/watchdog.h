#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/group.h"
#include "comm/messages.h"
#include "comm/standstill.h"

namespace dpo::comm {

struct WatchdogOptions {
  std::chrono::milliseconds timeout{60'000};  // longest time without a heartbeat
  bool one_machine = false;                   // true: other machines cannot connect
  std::optional<std::uint16_t> port = {};     // where rank 0 listens; nullopt: any free port
  StandstillLimits standstill = standstill_limits(timeout);
  std::function<Progress()> progress = [] { return Progress(); };  // of this rank
  // Called on rank 0, in the watchdog's thread.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// Detects failed ranks, with a thread in each rank. Every rank has a connection to rank 0 on which both sides
// send heartbeats. If the connection closes, the process has exited. If heartbeats stop, the process was
// stopped or the network is down. Heartbeats include the progress, so rank 0 also notices a rank that is
// alive but stuck. Rank 0 decides which failure ends the run and tells all ranks; the others only watch rank
// 0.
class Watchdog {
 public:
  // Every rank must construct one at the same time. `on_failure` is called in the watchdog's thread and
  // should end the process, because a collective operation with the failed rank never returns.
  Watchdog(Group& all, const WatchdogOptions& options, std::function<void(const RankFailure&)> on_failure);
  // Sends goodbye, so that exiting does not count as a failure. Must be called after a barrier.
  ~Watchdog();

  // Reports an error of this rank, which calls on_failure on every rank, including this one. Returns if that
  // did not end the process, or if rank 0 cannot be reached.
  void fail(const std::string& error, int status);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace dpo::comm
