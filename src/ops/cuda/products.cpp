#include "ops/cuda/products.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "ops/cuda/cublas_lt.h"

namespace dpo::cuda {
namespace {

constexpr std::uint32_t kAlignment = 16;  // bytes, of matrices and of their rows
constexpr int kMostAlgorithms = 16;

using Run = std::function<void()>;

void check(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("choosing a product's algorithm: ") + cudaGetErrorString(error));
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

bool is_aligned(const Operand& x) {
  return is_aligned(x.data) && x.stride * 2 % kAlignment == 0;  // 2 bytes per element
}

bool is_aligned(const Product& p) {
  return is_aligned(p.a) && is_aligned(p.b) && is_aligned(p.out) && is_aligned(p.bias) &&
         p.columns * 2 % kAlignment == 0;
}

cudaDataType_t library_type(Type type) {
  switch (type) {
    case Type::float32: break;
    case Type::bfloat16: return CUDA_R_16BF;
    case Type::float16: return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

// A product as cuBLASLt describes it. Matrices are column-major there, so that each of ours is its transpose,
// and out^T = b^T a^T.
class Call {
 public:
  Call(const CublasLt& lt, const Product& p) : lt_(lt), product_(p) {
    lt.init_operation(&operation_, sizeof operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(p.type));
    }
    describe(left_, p.b, p.columns, p.inner);
    describe(right_, p.a, p.inner, p.rows);
    lt.init_layout(&out_, sizeof out_, library_type(p.out_type), static_cast<std::uint64_t>(p.columns),
                   static_cast<std::uint64_t>(p.rows), p.columns);
  }

  // In the order in which cuBLASLt expects them to be fast.
  std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle) {
    cublasLtMatmulPreferenceOpaque_t preference;
    lt_.init_preference(&preference, sizeof preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      lt_.set_preference(&preference, name, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kProductWorkspace));
    for (const auto name :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(name, kAlignment);
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> found;
    int count = 0;
    if (lt_.get_heuristic(handle, &operation_, &left_, &right_, &out_, &out_, &preference, kMostAlgorithms,
                          found.data(), &count) != CUBLAS_STATUS_SUCCESS)
      return {};
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i)
      if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
    return algorithms;
  }

  bool run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, void* workspace, Stream stream) {
    const float one = 1, zero = 0;
    return lt_.matmul(handle, &operation_, &one, product_.b.data, &left_, product_.a.data, &right_, &zero,
                      product_.out, &out_, product_.out, &out_, &algorithm, workspace, kProductWorkspace,
                      static_cast<cudaStream_t>(stream)) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, const T& value) {
    lt_.set_operation(&operation_, name, &value, sizeof value);
  }

  // The layout of our [columns, rows] matrix `x`, or of what it is the transpose of.
  void describe(cublasLtMatrixLayoutOpaque_t& layout, const Operand& x, std::int64_t rows,
                std::int64_t columns) {
    if (x.transposed) std::swap(rows, columns);
    lt_.init_layout(&layout, sizeof layout, library_type(product_.type), static_cast<std::uint64_t>(rows),
                    static_cast<std::uint64_t>(columns), x.stride);
  }

  const CublasLt& lt_;
  const Product& product_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t left_, right_, out_;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream) { check(cudaEventRecord(event_, static_cast<cudaStream_t>(stream))); }
  float milliseconds_since(const Event& start) const {
    check(cudaEventSynchronize(event_));
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, start.event_, event_));
    return elapsed;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Runs a product with several algorithms.
class Trial {
 public:
  Trial(const CublasLt& lt, cublasLtHandle_t handle, const Product& product, void* workspace, Stream stream)
      : call_(lt, product), product_(product), handle_(handle), workspace_(workspace), stream_(stream) {}

  // That of the fastest one, if it is faster than the usual product.
  std::optional<cublasLtMatmulAlgo_t> fastest(const Run& usual) {
    constexpr float kMuchSlower = 1.08F, kFaster = 0.99F;
    constexpr int kRounds = 3;
    std::vector<Candidate> candidates = with_the_bits_of(usual);
    for (Candidate& c : candidates) c.milliseconds = time_of(c.run);
    const float best = std::ranges::min(candidates, {}, &Candidate::milliseconds).milliseconds;
    const auto is_slow = [&](const Candidate& c) {
      return c.algorithm && c.milliseconds > kMuchSlower * best;
    };
    std::erase_if(candidates, is_slow);
    for (int round = 0; round < kRounds; ++round)  // in turn, since the GPU's clock changes
      for (Candidate& c : candidates) c.milliseconds = std::min(c.milliseconds, time_of(c.run));
    const Candidate& fastest = *std::ranges::min_element(candidates, {}, &Candidate::milliseconds);
    const bool is_worth_it = fastest.milliseconds < kFaster * candidates.front().milliseconds;
    return is_worth_it ? fastest.algorithm : std::nullopt;
  }

 private:
  struct Candidate {
    Run run;
    std::optional<cublasLtMatmulAlgo_t> algorithm = {};  // none: the usual product
    float milliseconds = std::numeric_limits<float>::infinity();
  };

  // The usual product and its equals.
  std::vector<Candidate> with_the_bits_of(const Run& usual) {
    std::vector<Candidate> candidates = {{usual}};
    usual();
    const std::uint64_t expected = hash_of_result();
    for (const cublasLtMatmulAlgo_t& algorithm : call_.algorithms(handle_)) {
      const Run run = [this, algorithm] { call_.run(handle_, algorithm, workspace_, stream_); };
      if (call_.run(handle_, algorithm, workspace_, stream_) && hash_of_result() == expected)
        candidates.push_back({run, algorithm});
    }
    return candidates;
  }

  std::uint64_t hash_of_result() {
    const std::int64_t bytes =
        product_.rows * product_.columns * (product_.out_type == Type::float32 ? 4 : 2);
    hash_of(product_.out, bytes, static_cast<std::uint64_t*>(workspace_), stream_);
    std::uint64_t hash = 0;
    const auto on = static_cast<cudaStream_t>(stream_);
    check(cudaMemcpyAsync(&hash, workspace_, sizeof hash, cudaMemcpyDeviceToHost, on));
    check(cudaStreamSynchronize(on));
    return hash;
  }

  // Of one run. Several, if they are short: the events' resolution is half a microsecond.
  float time_of(const Run& run) {
    constexpr float kLongEnough = 0.5F;
    const float once = time_of(run, 1);
    if (once >= kLongEnough) return once;
    const int count = std::clamp(static_cast<int>(kLongEnough / once), 2, 50);
    return time_of(run, count) / static_cast<float>(count);
  }

  float time_of(const Run& run, int count) {
    start_.record(stream_);
    for (int i = 0; i < count; ++i) run();
    end_.record(stream_);
    return end_.milliseconds_since(start_);
  }

  Call call_;
  const Product& product_;
  cublasLtHandle_t handle_;
  void* workspace_;
  Stream stream_;
  Event start_, end_;
};

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, Type, Type, bool, bool, bool>;

Key key_of(const Product& p) {
  return {p.rows, p.columns, p.inner, p.type, p.out_type, p.a.transposed, p.b.transposed, p.bias != nullptr};
}

// More often than a batch uses a size, once or a few times in every layer. If batches have all kinds of
// lengths, most sizes never come up again, and a trial takes as long as dozens of products.
constexpr int kCallsBeforeTrial = 256;

struct Sizes {
  int calls = 0;
  std::optional<cublasLtMatmulAlgo_t> chosen = {};
};

// Neither tried nor about to be.
bool is_unused(const std::pair<const Key, Sizes>& entry) {
  return !entry.second.chosen && entry.second.calls < kCallsBeforeTrial;
}

struct Gpu {
  cublasLtHandle_t handle = nullptr;  // null: cuBLASLt does not work here
  std::map<Key, Sizes> known = {};
};

// The current one, while the lock exists. Handles live until the process ends, like the driver's own state.
class CurrentGpu {
 public:
  CurrentGpu() : lock_(mutex()) {
    static std::map<int, Gpu> gpus;
    int index = 0;
    check(cudaGetDevice(&index));
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

Choice choice_for(const Product& product) {
  constexpr std::size_t kMostSizes = 10000;  // remembered
  if (!is_aligned(product)) return Choice::none;
  const CurrentGpu gpu;
  if (!gpu->handle) return Choice::none;
  const auto [entry, is_new] = gpu->known.try_emplace(key_of(product));
  Sizes& sizes = entry->second;
  if (sizes.chosen) return Choice::chosen;
  if (++sizes.calls == kCallsBeforeTrial) return Choice::due;
  if (is_new && gpu->known.size() > kMostSizes) std::erase_if(gpu->known, is_unused);
  return Choice::none;
}

void choose_algorithm(const Product& product, const std::function<void()>& usual, void* workspace,
                      Stream stream) {
  const CurrentGpu gpu;
  Trial trial(*cublas_lt(), gpu->handle, product, workspace, stream);
  gpu->known[key_of(product)].chosen = trial.fastest(usual);
}

bool multiply(const Product& product, void* workspace, Stream stream) {
  const CurrentGpu gpu;
  const auto found = gpu->known.find(key_of(product));
  if (found == gpu->known.end() || !found->second.chosen) return false;
  return Call(*cublas_lt(), product).run(gpu->handle, *found->second.chosen, workspace, stream);
}

}  // namespace dpo::cuda
