#include "ops/measure.h"

#include <chrono>
#include <functional>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include "ops/devices.h"

namespace dpo::ops {
namespace {

constexpr double kSecondsOnCpu = 1;
constexpr double kSecondsOnGpu = 3;  // long enough to warm up: a cool GPU is faster than in sustained use

// Returns calls per second. A GPU gets several calls at a time, so that it is never idle.
double calls_per_second(bool on_gpu, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();  // warm-up: chooses kernels, allocates memory
  wait_for_gpu();
  const int together = on_gpu ? 10 : 1;
  const Clock::time_point start = Clock::now();
  std::int64_t calls = 0;
  double seconds = 0;
  while (seconds < (on_gpu ? kSecondsOnGpu : kSecondsOnCpu)) {
    for (int i = 0; i < together; ++i) call();
    wait_for_gpu();
    calls += together;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(calls) / seconds;
}

at::Tensor bytes_on(at::Device device, std::int64_t count, bool pinned = false) {
  return at::empty({count}, at::TensorOptions(at::kByte).device(device).pinned_memory(pinned)).fill_(1);
}

}  // namespace

double matmul_flops(at::Device device, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  at::globalContext().setAllowTF32CuBLAS(false);  // compute float32 in float32
  const std::int64_t n = device.is_cuda() ? 8192 : 1024;
  const at::Tensor a = at::randn({n, n}, at::TensorOptions(device)).to(type);
  const at::Tensor b = at::randn({n, n}, at::TensorOptions(device)).to(type);
  at::Tensor out = at::empty({n, n}, a.options());
  const auto size = static_cast<double>(n);
  return 2 * size * size * size * calls_per_second(device.is_cuda(), [&] { at::mm_out(out, a, b); });
}

double memory_bandwidth(at::Device device) {
  constexpr std::int64_t kBytes = 256 << 20;
  const at::Tensor from = bytes_on(device, kBytes);
  at::Tensor to = bytes_on(device, kBytes);
  return 2.0 * kBytes * calls_per_second(device.is_cuda(), [&] { to.copy_(from); });
}

double transfer_bandwidth(at::Device from, at::Device to) {
  constexpr std::int64_t kBytes = 256 << 20;
  const at::Tensor source = bytes_on(from, kBytes, from.is_cpu());
  at::Tensor target = bytes_on(to, kBytes, to.is_cpu());
  return kBytes * calls_per_second(true, [&] { target.copy_(source, /*non_blocking=*/true); });
}

}  // namespace dpo::ops
