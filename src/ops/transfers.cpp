#include "ops/transfers.h"

#include <dlfcn.h>

#include <stdexcept>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "base/error.h"

namespace dpo::ops {
namespace {

// Looks up CUDA's symbols, because its library is loaded with LibTorch and its headers need not be installed.
template <class Function>
Function* cuda_function(const char* name) {
  if (void* const found = dlsym(RTLD_DEFAULT, name)) return reinterpret_cast<Function*>(found);
  throw std::runtime_error(fmt::format("CUDA's runtime library has no {}", name));
}

void pin(void* memory, std::size_t bytes) {
  constexpr unsigned kPortable = 1;  // for all devices
  if (const int error =
          cuda_function<int(void*, std::size_t, unsigned)>("cudaHostRegister")(memory, bytes, kPortable))
    throw UserError(fmt::format(
        "offload: cannot pin {} bytes of host memory (CUDA error {}); is there enough memory, and does the "
        "limit on locked memory ('ulimit -l') allow it? Without offload=... none is needed",
        bytes, error));
}

}  // namespace

at::Tensor host_zeros(std::int64_t count, at::ScalarType dtype, at::Device device) {
  const at::Tensor zeros = at::zeros({count}, dtype);
  if (!device.is_cuda() || count == 0) return zeros;
  pin(zeros.mutable_data_ptr(), zeros.nbytes());
  const auto unpin = [zeros](void* memory) { cuda_function<int(void*)>("cudaHostUnregister")(memory); };
  return at::from_blob(zeros.mutable_data_ptr(), {count}, unpin, zeros.options());
}

CopyStream::CopyStream(at::Device device) : device_(device) {
  if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

c10::Stream CopyStream::current() const {
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

void CopyStream::copy(const at::Tensor& to, const at::Tensor& from) {
  run([&] { to.copy_(from, /*non_blocking=*/true); });
}

void CopyStream::run(const std::function<void()>& work) {
  const c10::OptionalStreamGuard guard(stream_);
  work();
}

Event CopyStream::record() const {
  if (!stream_) return nullptr;
  Event event = std::make_shared<c10::Event>(device_.type());
  event->record(*stream_);
  return event;
}

void CopyStream::wait_for(const Event& event) {
  if (event) event->block(*stream_);
}

void CopyStream::wait_for_current() {
  if (!stream_) return;
  c10::Event computed(device_.type());
  computed.record(current());
  computed.block(*stream_);
}

void CopyStream::make_current_stream_wait(const Event& event) const {
  if (event) event->block(current());
}

void CopyStream::finish() const {
  if (stream_) stream_->synchronize();
}

}  // namespace dpo::ops
