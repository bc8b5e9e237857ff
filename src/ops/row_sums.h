#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/linear.h"

namespace dpo::ops {

// Lists for the gradient of selected rows. Row rows[i] of the matrix gets the sum of the rows
// source_rows[starts[i]], ..., source_rows[starts[i + 1] - 1] of the selection's gradient.
struct RowSumLists {
  std::vector<std::int32_t> rows, starts, source_rows;
};

// Makes the lists from the numbers of the selected rows.
RowSumLists make_row_sums(std::span<const std::int32_t> numbers);

// RowSumLists as int32 tensors on a GPU that has the kernel; undefined elsewhere.
struct RowSums {
  at::Tensor rows, starts, source_rows;
};

// Returns the rows of a matrix with these numbers, int64 [rows]. With `sums`, the gradient touches only the
// selected rows, in one pass; LibTorch's gradient sorts the numbers and fills a whole new matrix. Both add in
// a fixed order, unlike index_select(). If `sums` is defined and `sum` has a tensor when the backward pass
// reaches it, the gradient is added there, and autograd sees none. Otherwise (always on a CPU) autograd
// returns the gradient, and the caller adds it to the sum.
at::Tensor select_rows(const at::Tensor& matrix, const at::Tensor& numbers, const RowSums& sums,
                       const std::shared_ptr<GradientSum>& sum = {});

}  // namespace dpo::ops
