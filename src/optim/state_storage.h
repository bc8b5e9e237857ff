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

// Where an elementwise optimizer keeps its state: on the device, or in host memory, from where it is lent
// part by part.
class StateStorage {
 public:
  virtual ~StateStorage() = default;

  // In the order in which a step asks for them; together they are all blocks.
  const std::vector<StatePart>& parts() const { return parts_; }
  // The arrays of a part on the device, to be changed in place until they are given back.
  virtual std::vector<StoredArray> lend(std::size_t part) = 0;
  virtual void give_back(std::size_t part) = 0;
  // All arrays of a block, where they live; nothing that was given back is still under way.
  virtual const std::vector<StoredArray>& block(std::size_t block) const = 0;

 protected:
  std::vector<StatePart> parts_;
};

// With an array of each format for every block of the weights.
std::unique_ptr<StateStorage> make_storage(const model::Weights& weights,
                                           const std::vector<StateFormat>& formats, bool offload);

}  // namespace dpo::optim
