#include "ops/quantized_matrix.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

at::Tensor values_of(const QuantizedMatrix& small, const at::Tensor& like) {
  at::Tensor values = at::full_like(like, -7);
  dequantize(small, values);
  return values;
}

std::vector<int> bytes_in(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().to(at::kInt);
  return {host.const_data_ptr<int>(), host.const_data_ptr<int>() + host.numel()};
}

// Both blocks have the same scale, so it is exact.
TEST(QuantizedMatrix, CodesOfNf4) {
  at::Tensor matrix = at::zeros({2, 64});
  matrix[0][0] = -2.0;
  matrix[0][1] = 2.0;
  matrix[0][2] = 2 * 0.0796;
  matrix[0][3] = 2 * 0.0397;  // nearer to 0
  matrix[0][4] = 2 * 0.0399;  // nearer to 0.0796
  matrix[0][5] = -2 * 0.61;   // nearer to -0.53 than to -0.70
  matrix[1][63] = 2.0;
  const QuantizedMatrix small = quantize(matrix, QuantizedDtype::nf4);
  std::vector<int> expected(64, 0x77);  // zeros
  expected[0] = 0x0F;
  expected[1] = 0x87;
  expected[2] = 0x82;
  expected[63] = 0x7F;
  EXPECT_EQ(bytes_in(small.codes), expected);
  EXPECT_EQ(small.offset, 2.0F);
  EXPECT_EQ(bytes_in(small.scales), (std::vector{127, 127}));
  const at::Tensor values = values_of(small, matrix);
  EXPECT_EQ(values[0][0].item<float>(), -2.0F);
  EXPECT_EQ(values[0][2].item<float>(), 2 * 0.07958029955625534F);
  EXPECT_EQ(values[0][3].item<float>(), 0.0F);
}

TEST(QuantizedMatrix, CodesOfRows) {
  const at::Tensor matrix = at::tensor({1.27F, -0.5F, 0.004F, 0.0F, 0.0F, 0.0F}).view({2, 3});
  const QuantizedMatrix int8 = quantize(matrix, QuantizedDtype::int8);
  EXPECT_EQ(bytes_in(int8.codes), (std::vector{127, 256 - 50, 0, 0, 0, 0}));
  EXPECT_EQ(int8.scales[1].item<float>(), 0.0F);
  const QuantizedMatrix fp8 =
      quantize(at::tensor({448.0F, -1.0F, 0.5F, 17.0F}).view({1, 4}), QuantizedDtype::fp8);
  EXPECT_EQ(bytes_in(fp8.codes), (std::vector{0x7E, 0xB8, 0x30, 0x58}));  // 17 is between 16 and 18: even
  EXPECT_EQ(fp8.scales[0].item<float>(), 1.0F);
}

// The largest error is half the distance between two levels, times the scale: 0.152 for nf4, and slightly
// more for the rounding of the scale and of the value. The mean error is checked only for many elements.
TEST(QuantizedMatrix, IsNearTheMatrix) {
  struct Bounds {
    QuantizedDtype dtype;
    double most, mean;
  };
  for (const auto& [dtype, most, mean] : {Bounds{QuantizedDtype::nf4, 0.17, 0.1},
                                          {QuantizedDtype::int8, 0.006, 0.012},
                                          {QuantizedDtype::fp8, 0.038, 0.03}})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      for (const std::int64_t columns : {1, 40, 64, 333, 1024}) {
        const at::Tensor matrix = at::randn({96, columns}, at::TensorOptions().dtype(type));
        const at::Tensor values = values_of(quantize(matrix, dtype), matrix);
        SCOPED_TRACE(testing::Message()
                     << "dtype " << static_cast<int>(dtype) << ", " << columns << " columns");
        EXPECT_LE((values - matrix).abs().max().item<double>(), most * matrix.abs().max().item<double>());
        if (columns > 1) {
          EXPECT_LT(relative_error(values, matrix), mean);
        }
        if (dtype == QuantizedDtype::nf4) continue;  // its scales are rounded too
        EXPECT_LT(relative_error(values_of(quantize(values, dtype), matrix), values), 1e-6);
      }
}

TEST(QuantizedMatrix, TakesFewBits) {
  const at::Tensor matrix = at::randn({256, 1024});
  const QuantizedMatrix nf4 = quantize(matrix, QuantizedDtype::nf4),
                        int8 = quantize(matrix, QuantizedDtype::int8);
  EXPECT_EQ(nf4.codes.nbytes() + nf4.scales.nbytes() + nf4.nested.nbytes(), 256u * 1024 / 2 + 4096 + 16 * 4);
  EXPECT_EQ(int8.codes.nbytes() + int8.scales.nbytes(), 256u * 1024 + 256 * 4);
}

TEST(QuantizedMatrix, OfZeros) {
  for (const QuantizedDtype dtype : {QuantizedDtype::nf4, QuantizedDtype::int8, QuantizedDtype::fp8}) {
    const at::Tensor zeros = at::zeros({3, 70});
    EXPECT_TRUE(at::equal(values_of(quantize(zeros, dtype), zeros), zeros));
  }
}

// A matrix is quantized in pieces. This one has more than one.
TEST(QuantizedMatrix, OfManyElements) {
  const at::Tensor matrix = at::randn({4097, 4100});
  const QuantizedMatrix nf4 = quantize(matrix, QuantizedDtype::nf4);
  const at::Tensor last = matrix.view({-1}).slice(0, 1 << 24).contiguous();
  EXPECT_TRUE(at::equal(nf4.codes.slice(0, 1 << 23), quantize(last.unsqueeze(0), QuantizedDtype::nf4).codes));
  const QuantizedMatrix int8 = quantize(matrix, QuantizedDtype::int8);
  EXPECT_TRUE(at::equal(int8.codes.view({4097, -1})[4096],
                        quantize(matrix.narrow(0, 4096, 1), QuantizedDtype::int8).codes));
}

at::Tensor select_values(const at::Tensor& values, std::int64_t dimension, at::ArrayRef<Slice> slices) {
  std::vector<at::Tensor> parts;
  for (const Slice& slice : slices) parts.push_back(values.narrow(dimension, slice.from, slice.count));
  return at::cat(parts, dimension);
}

struct SelectedPart {
  std::vector<std::int64_t> shape;
  std::int64_t dimension;
  std::vector<Slice> slices;
  std::int64_t block;  // for nf4
};

// Rows and columns of one row that begin and end within blocks, and odd numbers of elements.
const SelectedPart kSelected[] = {{{256, 192}, 0, {{64, 32}}, 64},
                                  {{256, 192}, 1, {{128, 64}}, 64},
                                  {{300, 128}, 0, {{0, 5}, {100, 7}, {299, 1}}, 64},
                                  {{40, 48}, 0, {{20, 10}}, 32},
                                  {{36, 108}, 1, {{12, 12}, {48, 12}, {84, 12}}, 4},
                                  {{40, 36}, 1, {{18, 18}}, 2},
                                  {{7, 9}, 0, {{3, 3}}, 1},
                                  {{7, 9}, 1, {{3, 3}, {8, 1}}, 1}};

TEST(QuantizedMatrix, PartsHaveTheValuesOfTheWhole) {
  for (const SelectedPart& part : kSelected)
    for (const QuantizedDtype dtype : {QuantizedDtype::nf4, QuantizedDtype::int8, QuantizedDtype::fp8}) {
      const at::Tensor matrix = at::randn(part.shape);
      const QuantizedMatrix whole = quantize(matrix, dtype);
      const at::Tensor expected = select_values(values_of(whole, matrix), part.dimension, part.slices);
      const QuantizedMatrix found = select(whole, part.shape, part.dimension, part.slices, part.block);
      EXPECT_TRUE(at::equal(values_of(found, expected), expected)) << part.shape << static_cast<int>(dtype);
      if (dtype != QuantizedDtype::nf4) continue;
      EXPECT_EQ(found.codes.numel(), (expected.numel() + 1) / 2);
      EXPECT_EQ(found.scales.numel(), expected.numel() / part.block);
      if (matrix.numel() < kNf4Block) continue;
      // Scales of the part alone would differ.
      const at::Tensor own = select_values(matrix, part.dimension, part.slices);
      EXPECT_FALSE(at::equal(values_of(quantize(own, dtype), own), expected));
    }
}

TEST(QuantizedMatrix, PartsOnAGpuHaveTheSameBits) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const SelectedPart& part : kSelected)
    for (const QuantizedDtype dtype : {QuantizedDtype::nf4, QuantizedDtype::int8, QuantizedDtype::fp8})
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor matrix = at::randn(part.shape, at::TensorOptions().dtype(type));
        const at::Tensor expected =
            select_values(values_of(quantize(matrix, dtype), matrix), part.dimension, part.slices);
        const QuantizedMatrix there =
            select(quantize(matrix.cuda(), dtype), part.shape, part.dimension, part.slices, part.block);
        EXPECT_TRUE(at::equal(values_of(there, expected.cuda()).cpu(), expected)) << part.shape;
      }
}

// Returns nf4 without 8-bit scales, as bitsandbytes has it without double quantization.
QuantizedMatrix with_plain_scales(QuantizedMatrix nf4, const at::Tensor& scales) {
  nf4.scales = scales;
  nf4.nested = at::Tensor();
  nf4.offset = 7;  // unused in this format
  return nf4;
}

TEST(QuantizedMatrix, Nf4WithPlainScales) {
  at::Tensor matrix = at::randn({3, 64});
  const at::Tensor scales = at::tensor({0.5F, 3.0F, 1e-3F});
  const QuantizedMatrix plain = with_plain_scales(quantize(matrix, QuantizedDtype::nf4), scales);
  const QuantizedMatrix ones = with_plain_scales(plain, at::ones({3}));
  EXPECT_TRUE(at::equal(values_of(plain, matrix), values_of(ones, matrix) * scales.unsqueeze(1)));
}

TEST(QuantizedMatrix, PlainScalesOnAGpuHaveTheSameBits) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t columns : {7, 64, 333, 4096}) {
      const at::Tensor matrix = at::randn({130, columns}, at::TensorOptions().dtype(type));
      const QuantizedMatrix here = with_plain_scales(quantize(matrix, QuantizedDtype::nf4),
                                                     at::randn({(130 * columns + 63) / 64}).abs());
      QuantizedMatrix there = here;
      there.codes = here.codes.cuda();
      there.scales = here.scales.cuda();
      EXPECT_TRUE(at::equal(values_of(here, matrix), values_of(there, matrix.cuda()).cpu())) << columns;
    }
}

TEST(QuantizedMatrix, OnAGpuHasTheSameBits) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const QuantizedDtype dtype : {QuantizedDtype::nf4, QuantizedDtype::int8, QuantizedDtype::fp8})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const std::int64_t columns : {1, 7, 40, 64, 333, 1024, 4096}) {
        const at::Tensor matrix = at::randn({130, columns}, at::TensorOptions().dtype(type));
        const QuantizedMatrix here = quantize(matrix, dtype), there = quantize(matrix.cuda(), dtype);
        EXPECT_TRUE(at::equal(here.codes, there.codes.cpu()));
        EXPECT_TRUE(at::equal(here.scales, there.scales.cpu()));
        EXPECT_EQ(here.offset, there.offset);
        if (dtype == QuantizedDtype::nf4) {
          EXPECT_TRUE(at::equal(here.nested, there.nested.cpu()));
        }
        EXPECT_TRUE(at::equal(values_of(here, matrix), values_of(there, matrix.cuda()).cpu()))
            << static_cast<int>(dtype) << " " << type << " " << columns;
      }
}

}  // namespace
}  // namespace dpo::ops
