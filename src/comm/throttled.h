#pragma once

#include <memory>

#include "comm/world.h"

namespace dpo::comm {

// A link over which bytes go one after the other at a given speed.
class Link {
 public:
  explicit Link(double bytes_per_second) : speed_(bytes_per_second) {}

  // Sends bytes from the time `now` on, in seconds; returns when the last of them arrives.
  double send(double bytes, double now);
  double sent() const { return sent_; }  // bytes

 private:
  double speed_;
  double sent_ = 0;
  double busy_until_ = 0;
};

// A group, and all that are split off it, whose exchanges take no less time than the link of each rank needs
// for the bytes that a ring sends over it: for measurements of what a slower network would do.
std::shared_ptr<Group> throttled(std::shared_ptr<Group> group, std::shared_ptr<Link> link);

}  // namespace dpo::comm
