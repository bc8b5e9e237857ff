#pragma once

#include <cstddef>
#include <memory>

#include "comm/world.h"

namespace dpo::comm {

// Returns the seconds of a clock that is never set back.
double seconds_now();

// Returns work that ends with `work`, but not before `time` on that clock.
Work ending_after(double time, Work work = {});

// Returns how many of `bytes` a rank of a ring sends: all but its own part.
double sent_by_ring(std::size_t bytes, int ranks);

// A simulated network link of a given speed.
class Link {
 public:
  explicit Link(double bytes_per_second) : speed_(bytes_per_second) {}

  // Sends bytes at time `now` [seconds], after those still being sent. Returns the time when the last one
  // arrives.
  double send(double bytes, double now);
  double sent() const { return sent_; }  // bytes

 private:
  double speed_;
  double sent_ = 0;
  double busy_until_ = 0;
};

// Wraps a group, and all groups split from it, to behave as on a slower network. A collective takes at least
// as long as a rank's link needs for the bytes that a ring algorithm sends. For benchmarks.
std::shared_ptr<Group> throttled(std::shared_ptr<Group> group, std::shared_ptr<Link> link);

}  // namespace dpo::comm
