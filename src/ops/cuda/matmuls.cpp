#include "ops/cuda/matmuls.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/cuda/matmul_call.h"

namespace dpo::cuda {
namespace {

// Least number of elements of the result, and of its 8-byte words that are not 0. Two orders of a sum round
// to different 16 bits in only one of some thousand elements, so smaller results cannot tell them apart.
constexpr std::int64_t kLeastElements = 1 << 20, kLeastWords = 1 << 17;
constexpr std::int64_t kLeastInner = 256;

using Run = std::function<bool()>;

void check_cuda(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("choosing a matmul's algorithm: ") + cudaGetErrorString(error));
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kMatmulAlignment == 0; }

bool is_aligned(const Operand& x) {
  return is_aligned(x.data) && x.stride * 2 % kMatmulAlignment == 0;  // 2 bytes per element
}

bool is_aligned(const Matmul& p) {
  return is_aligned(p.a) && is_aligned(p.b) && is_aligned(p.out) && is_aligned(p.bias) &&
         p.columns * 2 % kMatmulAlignment == 0;
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream) { check_cuda(cudaEventRecord(event_, static_cast<cudaStream_t>(stream))); }
  float milliseconds_since(const Event& start) const {
    check_cuda(cudaEventSynchronize(event_));
    float elapsed = 0;
    check_cuda(cudaEventElapsedTime(&elapsed, start.event_, event_));
    return elapsed;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Times a matmul with several algorithms.
class Trial {
 public:
  Trial(const CublasLt& lt, cublasLtHandle_t handle, const Matmul& matmul, void* workspace, Stream stream)
      : call_(lt, matmul), matmul_(matmul), handle_(handle), workspace_(workspace), stream_(stream) {}

  // Collects the usual matmul and the algorithms that give its bits. Returns false if too much of the result
  // is 0 to tell.
  bool find_candidates(const Run& usual) {
    usual();
    const Digest expected = digest_of_result();
    if (expected.nonzero_words < kLeastWords) return false;
    candidates_ = {{usual}};
    for (const cublasLtMatmulAlgo_t& algorithm : call_.algorithms(handle_)) {
      const Run run = [this, algorithm] { return call_.run(handle_, algorithm, workspace_, stream_); };
      if (run() && digest_of_result().hash == expected.hash) candidates_.push_back({run, algorithm});
    }
    return true;
  }

  // Returns the fastest algorithm, or nullopt if the usual matmul is the fastest.
  std::optional<cublasLtMatmulAlgo_t> fastest() {
    constexpr float kMuchSlower = 1.08F, kFaster = 0.99F;
    constexpr int kRounds = 3;
    for (Candidate& c : candidates_) c.milliseconds = time_of(c.run);
    const float best = std::ranges::min(candidates_, {}, &Candidate::milliseconds).milliseconds;
    const auto is_slow = [&](const Candidate& c) {
      return c.algorithm && c.milliseconds > kMuchSlower * best;
    };
    std::erase_if(candidates_, is_slow);
    for (int round = 0; round < kRounds; ++round)  // in turn, since the GPU's clock changes
      for (Candidate& c : candidates_) c.milliseconds = std::min(c.milliseconds, time_of(c.run));
    const Candidate& fastest = *std::ranges::min_element(candidates_, {}, &Candidate::milliseconds);
    const bool is_worth_it = fastest.milliseconds < kFaster * candidates_.front().milliseconds;
    return is_worth_it ? fastest.algorithm : std::nullopt;
  }

 private:
  struct Candidate {
    Run run;
    std::optional<cublasLtMatmulAlgo_t> algorithm = {};  // none: the usual matmul
    float milliseconds = std::numeric_limits<float>::infinity();
  };

  Digest digest_of_result() {
    const std::int64_t bytes = matmul_.rows * matmul_.columns * (matmul_.out_type == Type::float32 ? 4 : 2);
    digest(matmul_.out, bytes / 8, static_cast<Digest*>(workspace_), stream_);
    Digest result;
    const auto on = static_cast<cudaStream_t>(stream_);
    check_cuda(cudaMemcpyAsync(&result, workspace_, sizeof result, cudaMemcpyDeviceToHost, on));
    check_cuda(cudaStreamSynchronize(on));
    return result;
  }

  // Returns the time of one run in milliseconds. Short runs are repeated, because events have a resolution of
  // half a microsecond.
  float time_of(const Run& run) {
    constexpr float kLongEnough = 0.5F;
    const float once = time_of(run, 1);
    if (once >= kLongEnough) return once;
    const int count = static_cast<int>(std::clamp(kLongEnough / once, 2.0F, 50.0F));
    return time_of(run, count) / static_cast<float>(count);
  }

  float time_of(const Run& run, int count) {
    bool succeeds = true;
    start_.record(stream_);
    for (int i = 0; i < count; ++i) succeeds = run() && succeeds;
    end_.record(stream_);
    const float elapsed = end_.milliseconds_since(start_);
    return succeeds ? elapsed : std::numeric_limits<float>::infinity();
  }

  MatmulCall call_;
  const Matmul& matmul_;
  cublasLtHandle_t handle_;
  void* workspace_;
  Stream stream_;
  Event start_, end_;
  std::vector<Candidate> candidates_ = {};
};

// All properties that cuBLAS may use to choose an algorithm.
struct Key {
  std::int64_t rows, columns, inner, a_stride, b_stride;
  Type type, out_type;
  bool a_transposed, b_transposed;
  std::uintptr_t a, b, bias, out;  // alignments
  auto operator<=>(const Key&) const = default;
};

// Returns the alignment of a pointer, at most 256; 0 for a null pointer.
std::uintptr_t alignment_of(const void* data) {
  constexpr std::uintptr_t kMost = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return std::min(kMost, address & (~address + 1));
}

Key key_of(const Matmul& p) {
  return {p.rows,
          p.columns,
          p.inner,
          p.a.stride,
          p.b.stride,
          p.type,
          p.out_type,
          p.a.transposed,
          p.b.transposed,
          alignment_of(p.a.data),
          alignment_of(p.b.data),
          alignment_of(p.bias),
          alignment_of(p.out)};
}

// A trial takes as long as 30 or 40 matmuls, a few percent of this many. If batches have all kinds of
// lengths, most sizes never come up that often.
constexpr int kCallsBeforeTrial = 1024;

struct Sizes {
  int calls = 0;
  std::optional<cublasLtMatmulAlgo_t> chosen = {};
};

bool is_before_trial(const std::pair<const Key, Sizes>& entry) {
  return entry.second.calls < kCallsBeforeTrial;
}

struct Gpu {
  cublasLtHandle_t handle = nullptr;  // null: cuBLASLt does not work here
  std::map<Key, Sizes> known = {};
};

// Locks the state of the current GPU. Handles live until the process ends, like the driver's own state.
class CurrentGpu {
 public:
  CurrentGpu() : lock_(mutex()) {
    static std::map<int, Gpu> gpus;
    int index = 0;
    check_cuda(cudaGetDevice(&index));
    const auto [gpu, is_new] = gpus.try_emplace(index);
    gpu_ = &gpu->second;
    const CublasLt* lt = cublas_lt();
    if (is_new && lt && lt->create(&gpu_->handle) != CUBLAS_STATUS_SUCCESS) gpu_->handle = nullptr;
  }
  Gpu* operator->() const { return gpu_; }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }

  const std::lock_guard<std::mutex> lock_;
  Gpu* gpu_ = nullptr;
};

}  // namespace

Choice choice_for(const Matmul& matmul) {
  constexpr std::size_t kMostSizes = 10000;  // number of sizes to remember
  if (matmul.rows * matmul.columns < kLeastElements || matmul.inner < kLeastInner || !is_aligned(matmul))
    return Choice::none;
  const CurrentGpu gpu;
  if (!gpu->handle) return Choice::none;
  const auto [entry, is_new] = gpu->known.try_emplace(key_of(matmul));
  Sizes& sizes = entry->second;
  if (sizes.chosen) return Choice::chosen;
  if (sizes.calls == kCallsBeforeTrial) return Choice::none;
  if (++sizes.calls == kCallsBeforeTrial) return Choice::due;
  if (is_new && gpu->known.size() > kMostSizes) std::erase_if(gpu->known, is_before_trial);
  return Choice::none;
}

void choose_algorithm(const Matmul& matmul, const std::function<void()>& usual, void* workspace,
                      Stream stream) {
  const CurrentGpu gpu;
  Sizes& sizes = gpu->known[key_of(matmul)];
  Trial trial(*cublas_lt(), gpu->handle, matmul, workspace, stream);
  const auto run_usual = [&usual] {
    usual();
    return true;
  };
  if (trial.find_candidates(run_usual))
    sizes.chosen = trial.fastest();
  else
    sizes.calls = 0;
}

bool multiply(const Matmul& matmul, void* workspace, Stream stream) {
  const CurrentGpu gpu;
  const auto found = gpu->known.find(key_of(matmul));
  if (found == gpu->known.end() || !found->second.chosen) return false;
  const bool succeeds =
      MatmulCall(*cublas_lt(), matmul).run(gpu->handle, *found->second.chosen, workspace, stream);
  if (!succeeds) found->second.chosen.reset();
  return succeeds;
}

}  // namespace dpo::cuda
