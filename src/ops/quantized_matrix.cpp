#include "ops/quantized_matrix.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "base/number_formats.h"
#include "ops/fused.h"
#include "ops/quantized_formats.h"
#include "ops/upload.h"

namespace dpo::ops {
namespace {

constexpr std::int64_t kPiece = 1 << 24;  // elements at a time, to bound the memory of copies
constexpr float kSmallest = 1e-38F;       // least divisor for scaling: zeros get the code of 0
constexpr float kLargestInt8 = 127;

at::Tensor number_table(at::ArrayRef<float> numbers, at::Device device) {
  return upload(at::tensor(numbers, at::kFloat), device);
}

// Returns the index of the nearest of `values`, which are sorted, for each element, as uint8.
at::Tensor nearest(const at::Tensor& elements, at::ArrayRef<float> values) {
  std::vector<float> middles;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) middles.push_back((values[i] + values[i + 1]) / 2);
  return at::bucketize(elements, number_table(middles, elements.device()), /*out_int32=*/true).to(at::kByte);
}

// Returns blocks of `size` as rows, with the last one padded with zeros.
at::Tensor in_blocks(const at::Tensor& flat, std::int64_t size) {
  const std::int64_t missing = (size - flat.numel() % size) % size;
  return (missing == 0 ? flat : at::constant_pad_nd(flat, {0, missing})).view({-1, size});
}

struct Blocks {
  at::Tensor codes;   // uint8 [blocks, size]
  at::Tensor scales;  // float32 [blocks]: the largest absolute values
};

Blocks quantize_blocks(const at::Tensor& flat, std::int64_t size, at::ArrayRef<float> values) {
  const at::Tensor rows = in_blocks(flat.to(at::kFloat), size);
  const at::Tensor largest = rows.abs().amax(1);
  const at::Tensor factors = largest.clamp_min(kSmallest).reciprocal_();
  return {nearest(rows * factors.unsqueeze(1), values), largest};
}

at::Tensor packed(const at::Tensor& codes) {
  const at::Tensor pairs = codes.view({-1, 2});
  return pairs.select(1, 0) * 16 + pairs.select(1, 1);
}

at::Tensor unpacked(const at::Tensor& bytes) {
  return at::stack({bytes.bitwise_right_shift(4), bytes.bitwise_and(15)}, 1).view({-1});
}

// Returns the mean of the scales, always added in the same order.
float mean_of(const at::Tensor& host) {
  const float* const scales = host.const_data_ptr<float>();
  double sum = 0;
  for (std::int64_t i = 0; i < host.numel(); ++i) sum += scales[i];
  return static_cast<float>(sum / static_cast<double>(host.numel()));
}

QuantizedMatrix to_nf4(const at::Tensor& matrix) {
  constexpr Nf4Levels kLevels;
  constexpr DynamicMap kMap;
  const at::Tensor flat = matrix.reshape({-1});
  std::vector<at::Tensor> codes, scales;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const Blocks blocks = quantize_blocks(flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin)),
                                          kNf4Block, kLevels.values);
    codes.push_back(packed(blocks.codes));
    scales.push_back(blocks.scales);
  }
  // Runs on the CPU wherever the matrix is, so that the sum of its scales has the same bits.
  const at::Tensor host = at::cat(scales).cpu();
  const float offset = mean_of(host);
  const Blocks nested = quantize_blocks(host - offset, kNestedBlock, kMap.values);
  return {QuantizedDtype::nf4, at::cat(codes).narrow(0, 0, (flat.numel() + 1) / 2),
          nested.codes.view({-1}).narrow(0, 0, host.numel()).to(matrix.device()),
          nested.scales.to(matrix.device()), offset};
}

QuantizedMatrix to_rows(const at::Tensor& matrix, QuantizedDtype dtype) {
  const bool is_int8 = dtype == QuantizedDtype::int8;
  const at::Tensor codes = at::empty(matrix.sizes(), matrix.options().dtype(at::kByte));
  const at::Tensor scales = at::empty({matrix.size(0)}, matrix.options().dtype(at::kFloat));
  const std::int64_t step = std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, matrix.size(1)));
  for (std::int64_t begin = 0; begin < matrix.size(0); begin += step) {
    const std::int64_t count = std::min(step, matrix.size(0) - begin);
    const at::Tensor rows = matrix.narrow(0, begin, count).to(at::kFloat);
    // Multiplies, because for division by a number LibTorch multiplies by the reciprocal on a GPU and divides
    // on a CPU.
    const at::Tensor scale = rows.abs().amax(1) * (1 / (is_int8 ? kLargestInt8 : kLargestE4m3));
    const at::Tensor scaled = rows / scale.clamp_min(kSmallest).unsqueeze(1);
    codes.narrow(0, begin, count)
        .copy_((is_int8 ? scaled.round().to(at::kChar) : scaled.to(at::kFloat8_e4m3fn)).view(at::kByte));
    scales.narrow(0, begin, count).copy_(scale);
  }
  return {dtype, codes.view({-1}), scales};
}

// Returns the float32 scale of every block, maybe followed by padding.
at::Tensor nf4_scales(const QuantizedMatrix& matrix) {
  if (!matrix.nested.defined()) return matrix.scales;
  constexpr DynamicMap kMap;
  const at::Tensor map = number_table(kMap.values, matrix.scales.device());
  const at::Tensor relative = in_blocks(map.index_select(0, matrix.scales.to(at::kInt)), kNestedBlock);
  return (relative * matrix.nested.unsqueeze(1)).add_(matrix.offset).view({-1});
}

at::Tensor nf4_values(const QuantizedMatrix& matrix, std::int64_t count) {
  constexpr Nf4Levels kLevels;
  const at::Tensor levels = number_table(kLevels.values, matrix.codes.device());
  const at::Tensor values = in_blocks(
      levels.index_select(0, unpacked(matrix.codes).to(at::kInt)).narrow(0, 0, count), matrix.block);
  const at::Tensor scales = nf4_scales(matrix).narrow(0, 0, values.size(0));
  return (values * scales.unsqueeze(1)).view({-1}).narrow(0, 0, count);
}

at::Tensor row_values(const QuantizedMatrix& matrix) {
  const at::Tensor codes = matrix.codes.view({matrix.scales.size(0), -1});
  const at::ScalarType type = matrix.dtype == QuantizedDtype::int8 ? at::kChar : at::kFloat8_e4m3fn;
  return codes.view(type).to(at::kFloat) * matrix.scales.unsqueeze(1);
}

at::Tensor select_from(const at::Tensor& matrix, std::int64_t dimension, at::ArrayRef<Slice> slices) {
  std::vector<at::Tensor> parts;
  for (const Slice& slice : slices) parts.push_back(matrix.narrow(dimension, slice.from, slice.count));
  return at::cat(parts, dimension).reshape({-1});
}

QuantizedMatrix select_nf4(const QuantizedMatrix& matrix, at::IntArrayRef shape, std::int64_t dimension,
                           at::ArrayRef<Slice> slices, std::int64_t block) {
  const std::int64_t count = shape[0] * shape[1];
  const at::Tensor codes =
      select_from(unpacked(matrix.codes).narrow(0, 0, count).view(shape), dimension, slices);
  // Smaller blocks tile the whole matrix (rows selected) or each row of it (columns selected).
  const at::Tensor scales = nf4_scales(matrix)
                                .repeat_interleave(matrix.block / block)
                                .narrow(0, 0, count / block)
                                .view({dimension == 0 ? 1 : shape[0], -1});
  std::vector<Slice> blocks(slices.begin(), slices.end());
  for (Slice& slice : blocks) {
    const std::int64_t elements = dimension == 0 ? shape[1] : 1;
    slice = {slice.from * elements / block, slice.count * elements / block};
  }
  QuantizedMatrix selected{QuantizedDtype::nf4, packed(in_blocks(codes, 2)), select_from(scales, 1, blocks)};
  selected.block = block;
  return selected;
}

}  // namespace

QuantizedMatrix quantize(const at::Tensor& matrix, QuantizedDtype dtype) {
  const at::NoGradGuard no_grad;
  return dtype == QuantizedDtype::nf4 ? to_nf4(matrix) : to_rows(matrix, dtype);
}

void dequantize(const QuantizedMatrix& matrix, at::Tensor into) {
  const at::NoGradGuard no_grad;
  if (fused::supports_dequantize(into)) return fused::dequantize(into, matrix);
  into.view({-1}).copy_(matrix.dtype == QuantizedDtype::nf4 ? nf4_values(matrix, into.numel())
                                                            : row_values(matrix).view({-1}));
}

QuantizedMatrix select(const QuantizedMatrix& matrix, at::IntArrayRef shape, std::int64_t dimension,
                       at::ArrayRef<Slice> slices, std::int64_t block) {
  const at::NoGradGuard no_grad;
  if (matrix.dtype == QuantizedDtype::nf4) return select_nf4(matrix, shape, dimension, slices, block);
  return {matrix.dtype, select_from(matrix.codes.view(shape), dimension, slices),
          dimension == 0 ? select_from(matrix.scales, 0, slices) : matrix.scales};
}

}  // namespace dpo::ops
