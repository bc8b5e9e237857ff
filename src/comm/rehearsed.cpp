#include "comm/rehearsed.h"

#include <cstddef>
#include <stdexcept>

#include <ATen/core/grad_mode.h>

#include "comm/throttled.h"

namespace dpo::comm {
namespace {

// Bytes are quantized weights with their scales. A copy of one part elsewhere could turn codes into scales
// that are NaN. This byte makes a small number in every format.
constexpr int kSmallNumber = 0x3c;

void fill_parts(const at::Tensor& parts, const at::Tensor& own) {
  if (parts.numel() == 0) return;
  if (parts.scalar_type() == at::kByte)
    parts.fill_(kSmallNumber);
  else
    parts.copy_(own.view({1, -1}).expand_as(parts));
}

class RehearsedGroup : public Group {
 public:
  explicit RehearsedGroup(const Rehearsed& member) : member_(member) {}

  int rank() const override { return member_.rank; }
  int size() const override { return member_.size; }

  Work all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    return played(2 * tensor.nbytes(),
                  [=, factor = reduction == Reduction::sum ? size() : 1] { tensor.mul_(factor); });
  }

  Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    return played(into.nbytes(), [=, rank = rank(), size = size()] {
      const at::Tensor parts = into.view({size, own.numel()}), mine = parts.select(0, rank);
      if (mine.const_data_ptr() != own.const_data_ptr()) mine.copy_(own.view({-1}));
      fill_parts(parts.narrow(0, 0, rank), own);
      fill_parts(parts.narrow(0, rank + 1, size - rank - 1), own);
    });
  }

  // The sum over all parts reads all of `from`, as the real operation does.
  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    return played(from.nbytes(), [=, size = size()] {
      own.copy_(from.view({size, own.numel()}).sum(0).view(own.sizes()));
    });
  }

  Work broadcast(const at::Tensor& tensor, int) override {
    return played(tensor.nbytes(), [] {});
  }

  void barrier() override {}

  std::shared_ptr<Group> split(int) override {
    throw std::logic_error("a rehearsed group does not know the colours of ranks that do not exist");
  }

 private:
  // Keeps the tensors of `copies` until the caller has waited, because a stream may still use them.
  Work played(std::size_t bytes, const std::function<void()>& copies) {
    const double seconds = sent_by_ring(bytes, size()) / member_.bytes_per_second;
    member_.transfers->seconds += seconds;
    const at::NoGradGuard no_grad;
    Work sent = member_.wire->send(member_.transfers->take_time ? seconds : 0, copies);
    return Work([sent, copies]() mutable { sent.wait(); });
  }

  Rehearsed member_;
};

}  // namespace

std::shared_ptr<Group> rehearsed(const Rehearsed& member) {
  if (member.size == 1) return single();
  return std::make_shared<RehearsedGroup>(member);
}

}  // namespace dpo::comm
