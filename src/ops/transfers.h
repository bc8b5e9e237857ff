// Copies between host and device that overlap with computing.
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace dpo::ops {

// Zeros in host memory. For a GPU they are pinned: it copies from and to them while it computes. LibTorch's
// own pinned memory is rounded up to a power of two, which could double that of a large model.
at::Tensor host_zeros(std::int64_t count, at::ScalarType dtype, at::Device device);

// A point in the work of a stream; null: nothing to wait for.
using Mark = std::shared_ptr<c10::Event>;

// Copies on a stream of their own, beside the device's current one. On a CPU each is done at once.
class CopyStream {
 public:
  explicit CopyStream(at::Device device);

  void copy(const at::Tensor& to, const at::Tensor& from);
  // The copies so far.
  Mark mark() const;
  // What follows here begins after this point.
  void wait_for(const Mark& mark);
  // What follows here begins after all work of the device's current stream so far.
  void wait_for_current();
  // What the current stream is given next begins after this point.
  void hold_current(const Mark& mark) const;
  // The host waits for the copies so far.
  void finish() const;

 private:
  c10::Stream current() const;

  at::Device device_;
  std::optional<c10::Stream> stream_;  // none on a CPU
};

}  // namespace dpo::ops
