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
  std::chrono::milliseconds timeout{60'000};  // without a heartbeat
  bool one_machine = false;                   // then no other machine can connect
  std::optional<std::uint16_t> port = {};     // where rank 0 listens; null: a free one
  StandstillLimits standstill = standstill_limits(timeout);
  std::function<Progress()> progress = [] { return Progress(); };  // of this rank
  // Called on rank 0, in the watchdog's thread.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// Detects failed ranks, with a thread in each rank. Every rank has a connection to rank 0 on which both send
// heartbeats: a connection that closes means that the process exited; one without heartbeats, that it was
// stopped or that the network is down. Heartbeats say how far a rank is, so that rank 0 notices one that is
// alive and stuck. Rank 0 decides which failure ends the run and tells all; the others only watch rank 0.
class Watchdog {
 public:
  // Every rank constructs one at the same time. `on_failure` is called in the watchdog's thread and should
  // end the process: a collective operation with the failed rank never returns.
  Watchdog(Group& all, const WatchdogOptions& options, std::function<void(const RankFailure&)> on_failure);
  // Says goodbye, so that the exit does not count as a failure. Needs a barrier before it.
  ~Watchdog();

  // Reports an error of this rank: on_failure is called in every rank, including this one. Returns if that
  // did not end the process, or if rank 0 cannot be reached.
  void fail(const std::string& error, int status);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace dpo::comm
