#include "ops/cuda/products.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
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

void check(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("choosing a product's algorithm: ") + cudaGetErrorString(error));
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

bool is_aligned(const Operand& x) {
  return is_aligned(x.data) && x.stride * 2 % kAlignment == 0;  // 2 bytes per element
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

  // Algorithms in the order in which cuBLASLt expects them to be fast; none splits a sum.
  std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle) {
    cublasLtMatmulPreferenceOpaque_t preference;
    lt_.init_preference(&preference, sizeof preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      lt_.set_preference(&preference, name, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kProductWorkspace));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
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
    const float one = 1, keep = product_.add ? 1 : 0;
    return lt_.matmul(handle, &operation_, &one, product_.b.data, &left_, product_.a.data, &right_, &keep,
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

// Runs a product with several algorithms. It overwrites its result with itself, so it must not be one that
// adds.
class Trial {
 public:
  Trial(Call& call, const Product& product, cublasLtHandle_t handle, void* workspace, Stream stream)
      : call_(call), product_(product), handle_(handle), workspace_(workspace), stream_(stream) {}

  std::optional<cublasLtMatmulAlgo_t> fastest() {
    std::vector<Candidate> candidates = with_the_same_bits();
    if (candidates.empty()) return std::nullopt;
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round)
      for (Candidate& c : candidates) c.milliseconds = std::min(c.milliseconds, time_of(c.algorithm));
    return std::ranges::min_element(candidates, {}, &Candidate::milliseconds)->algorithm;
  }

 private:
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    float milliseconds = std::numeric_limits<float>::infinity();
  };

  std::vector<Candidate> with_the_same_bits() {
    std::vector<Candidate> candidates;
    std::uint64_t expected = 0;
    for (const cublasLtMatmulAlgo_t& algorithm : call_.algorithms(handle_)) {
      if (!call_.run(handle_, algorithm, workspace_, stream_)) continue;
      const std::uint64_t hash = hash_of_result();
      if (candidates.empty()) expected = hash;
      if (hash == expected) candidates.push_back({algorithm});
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

  // At least for a millisecond: the events' resolution is half a microsecond.
  float time_of(const cublasLtMatmulAlgo_t& algorithm) {
    int count = 1;
    float elapsed = time_of(algorithm, count);
    if (elapsed < 1) {
      count = std::clamp(static_cast<int>(1 / elapsed), 2, 50);
      elapsed = time_of(algorithm, count);
    }
    return elapsed / static_cast<float>(count);
  }

  float time_of(const cublasLtMatmulAlgo_t& algorithm, int count) {
    start_.record(stream_);
    for (int i = 0; i < count; ++i) call_.run(handle_, algorithm, workspace_, stream_);
    end_.record(stream_);
    return end_.milliseconds_since(start_);
  }

  Call& call_;
  const Product& product_;
  cublasLtHandle_t handle_;
  void* workspace_;
  Stream stream_;
  Event start_, end_;
};

// The four highest bits: the number of tokens differs from batch to batch.
std::int64_t rounded(std::int64_t size) {
  const int low_bits = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 4);
  return size >> low_bits << low_bits;
}

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, Type, Type, bool, bool, bool>;

Key key_of(const Product& p) {
  return {rounded(p.rows), rounded(p.columns), rounded(p.inner), p.type,
          p.out_type,      p.a.transposed,     p.b.transposed,   p.bias != nullptr};
}

struct Gpu {
  cublasLtHandle_t handle = nullptr;  // null: cuBLASLt does not work here
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> chosen = {};
};

int current_device() {
  int index = 0;
  check(cudaGetDevice(&index));
  return index;
}

// The current one. Handles live until the process ends, like the driver's own state.
Gpu& current_gpu(const CublasLt& lt) {
  static std::map<int, Gpu> gpus;
  const auto [gpu, is_new] = gpus.try_emplace(current_device());
  if (is_new && lt.create(&gpu->second.handle) != CUBLAS_STATUS_SUCCESS) gpu->second.handle = nullptr;
  return gpu->second;
}

}  // namespace

// If tiles of 128 x 128 occupy the GPU twice. With fewer, algorithms that split sums among blocks win.
bool is_suitable(const Product& p) {
  constexpr std::int64_t kTile = 128, kLeast = 256;
  if (std::min({p.rows, p.columns, p.inner}) < kLeast || p.columns * 2 % kAlignment != 0 ||
      !is_aligned(p.a) || !is_aligned(p.b) || !is_aligned(p.out) || !is_aligned(p.bias))
    return false;
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, current_device()));
  return ((p.rows + kTile - 1) / kTile) * ((p.columns + kTile - 1) / kTile) >= 2 * multiprocessors;
}

bool multiply(const Product& product, void* workspace, Stream stream) {
  static std::mutex mutex;
  const CublasLt* lt = cublas_lt();
  if (!lt) return false;
  const std::lock_guard lock(mutex);
  Gpu& gpu = current_gpu(*lt);
  if (!gpu.handle) return false;
  Call call(*lt, product);
  const Key key = key_of(product);
  auto known = gpu.chosen.find(key);
  if (known == gpu.chosen.end() && !product.add)
    known = gpu.chosen.emplace(key, Trial(call, product, gpu.handle, workspace, stream).fastest()).first;
  const bool has_choice = known != gpu.chosen.end() && known->second;
  if (has_choice && call.run(gpu.handle, *known->second, workspace, stream)) return true;
  // Before the first trial, or for a size that the algorithm of this rounded one does not support.
  const std::vector<cublasLtMatmulAlgo_t> others = call.algorithms(gpu.handle);
  return std::ranges::any_of(
      others, [&](const auto& algorithm) { return call.run(gpu.handle, algorithm, workspace, stream); });
}

}  // namespace dpo::cuda
