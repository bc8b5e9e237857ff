// comm handles the processes (ranks) of a run: their groups and collective operations, their launch, and the
// response when one of them fails.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::comm {

// A collective operation in progress, like torch.distributed's Work. Its tensors may be read or changed only
// after wait(). On a GPU, wait() makes the current stream wait, not the host.
class Work {
 public:
  Work() = default;  // already complete
  explicit Work(std::function<void()> wait) : wait_(std::move(wait)) {}

  void wait() {
    if (wait_) std::exchange(wait_, {})();
  }

 private:
  std::function<void()> wait_;
};

enum class Reduction { sum, max };

// A group of ranks that communicate. All of them call the same functions in the same order, with contiguous
// tensors of the same dtype and size. The same inputs give the same bits on every rank, in every run. In a
// group of one, every operation is the identity.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual Work all_reduce(const at::Tensor& tensor, Reduction reduction = Reduction::sum) = 0;
  // Gathers the `own` of every rank into `into`, in rank order. `own` may be this rank's part of `into`.
  virtual Work all_gather(const at::Tensor& into, const at::Tensor& own) = 0;
  // Sums every rank's `from`, divides the sum into equal parts, and writes this rank's part to `own`. `own`
  // may be that part of `from`.
  virtual Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) = 0;
  virtual Work broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void barrier() = 0;

  // Returns the group of the ranks with the same colour, in the order of their ranks here.
  virtual std::shared_ptr<Group> split(int colour) = 0;
};

// Returns a group with only this process.
std::shared_ptr<Group> single();

// Returns the root's text on every rank.
std::string broadcast_text(Group& group, const std::string& text, int root);

// Returns every rank's text, in rank order.
std::vector<std::string> gather_texts(Group& group, const std::string& own);

}  // namespace dpo::comm
