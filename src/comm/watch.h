#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/group.h"
#include "comm/messages.h"

namespace dpo::comm {

struct WatchOptions {
  std::chrono::milliseconds patience{60'000};  // without a sign of life
  std::optional<std::uint16_t> port;           // where the first rank listens; null: one that is free
};

// Ranks that look after each other, in a thread of each: every rank has a connection to the first, on which
// both give signs of life. A connection that breaks is a process that died; one that is silent, a process
// that was stopped or a network that is gone. The first rank judges and tells all; the others judge the
// first.
class Watch {
 public:
  // Every rank constructs one at the same time. `on_loss` is called in the watch's thread, and is expected to
  // end the process: whoever waits for the lost rank waits forever.
  Watch(Group& all, const WatchOptions& options, std::function<void(const Loss&)> on_loss);
  // Says goodbye, so that nobody is missed: where all ranks are done, after a barrier.
  ~Watch();

  // The last words of this rank, which cannot go on: on_loss is called in every rank, in this one too.
  // Returns where that did not end the process, or nobody heard them.
  void fail(const std::string& words, int status);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace dpo::comm
