// Makes a stream wait for as long as a transfer between GPUs would take. A single thread waits, so other
// streams keep almost the whole GPU.
#include "ops/cuda/launch.cuh"

namespace dpo::cuda {
namespace {

// Returns nanoseconds of a clock that all multiprocessors share.
__device__ std::int64_t now() {
  std::int64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void mark_time_kernel(std::int64_t* time) { *time = now(); }

__global__ void wait_since_kernel(const std::int64_t* time, std::int64_t nanoseconds) {
  constexpr unsigned kPause = 500;  // nanoseconds
  const std::int64_t end = *time + nanoseconds;
  while (now() < end) __nanosleep(kPause);
}

}  // namespace

void mark_time(std::int64_t* time, Stream stream) {
  mark_time_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(time);
  check_launch("mark_time");
}

void wait_since(const std::int64_t* time, std::int64_t nanoseconds, Stream stream) {
  wait_since_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(time, nanoseconds);
  check_launch("wait_since");
}

}  // namespace dpo::cuda
