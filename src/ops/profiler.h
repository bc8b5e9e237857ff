#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dpo::ops {

// One recorded kernel, copy or operator; times are nanoseconds of one clock.
struct ProfiledSpan {
  std::string name;
  std::int64_t begin = 0, end = 0;
  std::uint64_t thread = 0;
};

// Records what runs: kernels and copies on a GPU, LibTorch's operators on a CPU. An operator's span contains
// those of the operators it calls. At most one profiler exists at a time.
class Profiler {
 public:
  explicit Profiler(bool on_gpu);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Stops recording and returns the spans since the start. Call it once.
  std::vector<ProfiledSpan> stop();

 private:
  bool on_gpu_;
  bool running_ = true;
};

}  // namespace dpo::ops
