#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/linear.h"

namespace dpo::ops {

// The gradient of selected rows: to the row rows[i] of a matrix are added the rows places[starts[i]], ...,
// places[starts[i + 1] - 1] of the selection's gradient.
struct RowSumLists {
  std::vector<std::int32_t> rows, starts, places;
};

// `numbers`: of the rows that were selected.
RowSumLists make_row_sums(std::span<const std::int32_t> numbers);

// The same on a GPU that has the kernel, int32; undefined elsewhere.
struct RowSums {
  at::Tensor rows, starts, places;
};

// The rows of a matrix with these numbers, int64 [rows]. If `sum` has a tensor when the backward pass reaches
// it, the gradient of the matrix is added there, and autograd sees none. With `sums` only the rows that were
// selected are touched, in one pass: LibTorch's gradient sorts the numbers, and is a whole matrix of its own.
// Either adds in the same order every time, unlike that of index_select().
at::Tensor select_rows(const at::Tensor& matrix, const at::Tensor& numbers, const RowSums& sums,
                       const std::shared_ptr<GradientSum>& sum = {});

}  // namespace dpo::ops
