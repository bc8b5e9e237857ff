#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dpo::ops {

// Something that ran, in nanoseconds of one clock.
struct ProfiledSpan {
  std::string name;
  std::int64_t begin = 0, end = 0;
  std::uint64_t thread = 0;
};

// Records what runs: on a GPU its kernels and copies, on a CPU LibTorch's operators, which contain those that
// they call. At most one exists at a time.
class Profiler {
 public:
  explicit Profiler(bool on_gpu);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // What ran since the start. Once.
  std::vector<ProfiledSpan> stop();

 private:
  bool on_gpu_;
  bool running_ = true;
};

}  // namespace dpo::ops
