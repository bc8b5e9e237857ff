#pragma once

#include <memory>
#include <vector>

#include "model/weights.h"
#include "optim/stored_state.h"

namespace dpo::optim {

// Consecutive elements of a block's flat buffer.
struct StatePart {
  std::size_t block = 0;
  std::int64_t from = 0, count = 0;
};

// Holds the state of an elementwise optimizer: on the device, or in host memory, from where it is copied to
// the device part by part.
class StateStorage {
 public:
  virtual ~StateStorage() = default;

  // Returns the parts in the order in which a step asks for them. Together they are all blocks.
  const std::vector<StatePart>& parts() const { return parts_; }
  // Returns the arrays of a part on the device, which may be changed in place until release().
  virtual std::vector<StoredArray> acquire(std::size_t part) = 0;
  virtual void release(std::size_t part) = 0;
  // Returns all arrays of a block in the memory that stores them. Waits until all released parts are there.
  virtual const std::vector<StoredArray>& block(std::size_t block) const = 0;

 protected:
  std::vector<StatePart> parts_;
};

// Makes a storage with an array of each format for every block of the weights.
std::unique_ptr<StateStorage> make_storage(const model::Weights& weights,
                                           const std::vector<StateFormat>& formats, bool offload);

}  // namespace dpo::optim
