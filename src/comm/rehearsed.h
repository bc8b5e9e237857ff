#pragma once

#include <functional>
#include <memory>

#include "comm/group.h"

namespace dpo::comm {

// Plays the transfers of one group on a device.
class Wire {
 public:
  virtual ~Wire() = default;
  // Runs `copies` at once or on a stream. The returned Work ends when they are done and `seconds` have passed
  // since the wire began with them, which it does after its earlier transfers.
  virtual Work send(double seconds, const std::function<void()>& copies) = 0;
};

// State that the groups of a rehearsal share.
struct Transfers {
  bool take_time = true;  // false: only the copies are made
  double seconds = 0;     // of all transfers so far, whether or not they took this time
};

// A member of a group of which only this process exists.
struct Rehearsed {
  int rank = 0, size = 1;
  double bytes_per_second = 0;  // of a ring over the group
  std::shared_ptr<Wire> wire;
  std::shared_ptr<Transfers> transfers;
};

// Returns a group for one rank's share of a run of many ranks. A collective reads and writes as many bytes as
// a real one, and takes the time that a ring of this bandwidth needs. The other ranks are assumed to hold the
// same values as this one, so results are finite but meaningless. The group cannot be split.
std::shared_ptr<Group> rehearsed(const Rehearsed& member);

}  // namespace dpo::comm
