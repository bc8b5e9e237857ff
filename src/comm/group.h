// comm: processes that work together: their groups and what they exchange, how they are started, and what
// happens when one of them fails.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

namespace dpo::comm {

// An exchange under way. Its tensors may be read or changed after wait() alone. On a GPU wait() makes the
// current stream wait, not the host.
class Pending {
 public:
  Pending() = default;  // of something that is complete
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}

  void wait() {
    if (wait_) std::exchange(wait_, {})();
  }

 private:
  std::function<void()> wait_;
};

enum class Reduction { sum, max };

// Ranks that exchange tensors. All of them call the same functions in the same order, with contiguous tensors
// of the same type and size. What begins with the same numbers ends with the same bits on every rank, in
// every run. A group of one is the identity.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual Pending all_reduce(const at::Tensor& tensor, Reduction reduction = Reduction::sum) = 0;
  // `into` holds the `own` of every rank, in their order. `own` may be that part of `into` already.
  virtual Pending all_gather(const at::Tensor& into, const at::Tensor& own) = 0;
  // The sum of every rank's `from`, of which `own` gets this rank's part of equal parts. `own` may be that
  // part of `from`.
  virtual Pending reduce_scatter(const at::Tensor& own, const at::Tensor& from) = 0;
  virtual Pending broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void barrier() = 0;

  // The group of the ranks that give the same colour, in the order of their ranks here.
  virtual std::shared_ptr<Group> split(int colour) = 0;
};

// One process alone.
std::shared_ptr<Group> single();

}  // namespace dpo::comm
