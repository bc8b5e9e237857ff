// Dequantizes matrices in one pass that reads the codes and writes the values.
#include <cuda_fp8.h>

#include "base/number_formats.h"
#include "ops/cuda/packs.cuh"
#include "ops/quantized_formats.h"

namespace dpo::cuda {
namespace {

constexpr int kCodesAtOnce = 8;  // elements per thread and step

__constant__ ops::Nf4Levels kLevels = ops::Nf4Levels();
__constant__ ops::DynamicMap kMap = ops::DynamicMap();

// Stores kCodesAtOnce values from `element` on, or fewer if `end` comes first.
template <class T>
__device__ void store_values(T* out, std::int64_t element, std::int64_t end,
                             const float (&values)[kCodesAtOnce]) {
  if (element + kCodesAtOnce > end) {
#pragma unroll
    for (int i = 0; i < kCodesAtOnce; ++i)
      if (element + i < end) assign(out[element + i], values[i]);
    return;
  }
  Pack<T, kCodesAtOnce> pack;
#pragma unroll
  for (int i = 0; i < kCodesAtOnce; ++i) assign(pack.values[i], values[i]);
  // Stores 16 bytes at a time, the widest access.
  constexpr int kStored = 16 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < kCodesAtOnce; i += kStored)
    store_pack(out, element + i, *reinterpret_cast<const Pack<T, kStored>*>(pack.values + i));
}

// Returns the scale of an element. Multiplication and addition round separately, as on the CPU.
__device__ float scale_of(const Nf4Scales& scales, std::int64_t element) {
  const std::int64_t block = element >> scales.block_bits;
  if (scales.values) return scales.values[block];
  const float relative = __fmul_rn(kMap.values[scales.codes[block]], scales.nested[block / kNestedBlock]);
  return __fadd_rn(relative, scales.offset);
}

template <class T>
__global__ void from_nf4_kernel(Dequantize matrix, Nf4Scales scales) {
  __shared__ float levels[16];  // threads read different levels, each from its own bank
  if (threadIdx.x < 16) levels[threadIdx.x] = kLevels.values[threadIdx.x];
  __syncthreads();
  const std::int64_t count = matrix.rows * matrix.columns, start = thread_number() * kCodesAtOnce;
  if (start >= count) return;
  std::uint32_t word = 0;  // the codes of kCodesAtOnce elements
  if (start + kCodesAtOnce <= count) {
    word = *reinterpret_cast<const std::uint32_t*>(matrix.codes + start / 2);
  } else {
    for (int i = 0; start + 2 * i < count; ++i)
      word |= static_cast<std::uint32_t>(matrix.codes[start / 2 + i]) << (8 * i);
  }
  const bool has_one_scale = 1 << scales.block_bits >= kCodesAtOnce;
  float scale = scale_of(scales, start), values[kCodesAtOnce];
#pragma unroll
  for (int i = 0; i < kCodesAtOnce; ++i) {
    if (!has_one_scale && start + i < count) scale = scale_of(scales, start + i);
    const int bits = 8 * (i / 2) + (i % 2 == 0 ? 4 : 0);  // the first code of a byte is in the high bits
    values[i] = __fmul_rn(levels[word >> bits & 15], scale);
  }
  store_values(static_cast<T*>(matrix.out), start, count, values);
}

struct Int8 {
  static __device__ float value(std::uint8_t code) {
    return static_cast<float>(static_cast<std::int8_t>(code));
  }
};

struct Fp8 {
  static __device__ float value(std::uint8_t code) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
  }
};

// Each block of threads takes a row.
template <class Format, class T>
__global__ void from_rows_kernel(Dequantize matrix, const float* scales) {
  const std::int64_t row = blockIdx.x, first = row * matrix.columns, end = first + matrix.columns;
  const float scale = scales[row];
  T* const out = static_cast<T*>(matrix.out);
  if (matrix.columns % kCodesAtOnce != 0) {  // rows do not begin where packs do
    for (std::int64_t i = first + threadIdx.x; i < end; i += kThreads)
      assign(out[i], __fmul_rn(Format::value(matrix.codes[i]), scale));
    return;
  }
  for (std::int64_t start = first + threadIdx.x * kCodesAtOnce; start < end;
       start += kThreads * kCodesAtOnce) {
    const Pack<std::uint8_t, kCodesAtOnce> codes = *pack_at<kCodesAtOnce>(matrix.codes + start);
    float values[kCodesAtOnce];
#pragma unroll
    for (int i = 0; i < kCodesAtOnce; ++i) values[i] = __fmul_rn(Format::value(codes.values[i]), scale);
    store_values(out, start, end, values);
  }
}

template <class Format>
void from_rows(const Dequantize& matrix, const float* scales, Stream stream) {
  if (matrix.rows == 0) return;
  with_type(matrix.type, [&](auto type) {
    from_rows_kernel<Format, decltype(type)>
        <<<static_cast<unsigned>(matrix.rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(matrix,
                                                                                                 scales);
  });
  check_launch("from_rows");
}

}  // namespace

void from_nf4(const Dequantize& matrix, const Nf4Scales& scales, Stream stream) {
  const std::int64_t count = matrix.rows * matrix.columns;
  if (count == 0) return;
  with_type(matrix.type, [&](auto type) {
    from_nf4_kernel<decltype(type)><<<blocks_for((count + kCodesAtOnce - 1) / kCodesAtOnce), kThreads, 0,
                                      static_cast<cudaStream_t>(stream)>>>(matrix, scales);
  });
  check_launch("from_nf4");
}

void from_int8(const Dequantize& matrix, const float* scales, Stream stream) {
  from_rows<Int8>(matrix, scales, stream);
}

void from_fp8(const Dequantize& matrix, const float* scales, Stream stream) {
  from_rows<Fp8>(matrix, scales, stream);
}

}  // namespace dpo::cuda
