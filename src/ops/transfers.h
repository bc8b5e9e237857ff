// Provides copies between host and device that overlap with computing.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace dpo::ops {

// Returns zeros in host memory. For a GPU the memory is pinned, so that copies overlap with computing.
// LibTorch's own pinned memory is rounded up to a power of two, which could double that of a large model.
at::Tensor host_zeros(std::int64_t count, at::ScalarType dtype, at::Device device);

// A point in the work of a stream. Null means that there is nothing to wait for.
using Event = std::shared_ptr<c10::Event>;

// Copies on a separate stream, in parallel to the device's current one. On a CPU each copy is done at once.
class CopyStream {
 public:
  explicit CopyStream(at::Device device);

  void copy(const at::Tensor& to, const at::Tensor& from);
  // Calls a function whose operations go to this stream.
  void run(const std::function<void()>& work);
  // Marks the end of the copies so far.
  Event record() const;
  // Later copies wait for this point.
  void wait_for(const Event& event);
  // Later copies wait for all work of the device's current stream so far.
  void wait_for_current();
  // Later work of the current stream waits for this point.
  void make_current_stream_wait(const Event& event) const;
  // Blocks the host until the copies so far are done.
  void finish() const;

 private:
  c10::Stream current() const;

  at::Device device_;
  std::optional<c10::Stream> stream_;  // none on a CPU
};

}  // namespace dpo::ops
