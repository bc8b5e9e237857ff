#include "model/batch.h"

#include <algorithm>
#include <span>
#include <utility>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ops/fused.h"
#include "ops/upload.h"

namespace dpo::model {
namespace {

void check(const data::Forest& forest, const ModelShape& shape) {
  for (const data::Token token : forest.tokens)
    if (token < 0 || token >= shape.vocabulary)
      throw UserError(
          fmt::format("token {} is not in the model's vocabulary of {}: is this the tokenizer of "
                      "another model?",
                      token, shape.vocabulary));
  const auto longest = std::max_element(forest.positions.begin(), forest.positions.end());
  if (longest != forest.positions.end() && *longest >= shape.context)
    throw UserError(
        fmt::format("a sequence of {} tokens is longer than the model's context of {}; "
                    "truncate it with max_length",
                    *longest + 1, shape.context));
}

// Returns where each tree's responses begin, counted from the first response token.
std::vector<std::int32_t> branch_starts(const data::Forest& forest) {
  std::vector<std::int32_t> starts;
  for (const std::int32_t response : forest.tree_responses)
    starts.push_back(forest.response_starts[static_cast<std::size_t>(response)] -
                     forest.prompt_starts.back());
  return starts;
}

// Returns, for each token, the length of its tree's longest sequence.
std::vector<std::int32_t> tree_lengths(const data::Forest& forest) {
  std::vector<std::int32_t> lengths(forest.tokens.size());
  const auto fill = [&](std::int32_t begin, std::int32_t end, std::int32_t value) {
    std::fill(lengths.begin() + begin, lengths.begin() + end, value);
  };
  for (std::size_t t = 0; t + 1 < forest.prompt_starts.size(); ++t) {
    const auto first = static_cast<std::size_t>(forest.tree_responses[t]),
               last = static_cast<std::size_t>(forest.tree_responses[t + 1]);
    std::int32_t longest = 0;
    for (std::size_t r = first; r < last; ++r)
      longest = std::max(longest, forest.response_starts[r + 1] - forest.response_starts[r]);
    longest += forest.prompt_starts[t + 1] - forest.prompt_starts[t];
    fill(forest.prompt_starts[t], forest.prompt_starts[t + 1], longest);
    fill(forest.response_starts[first], forest.response_starts[last], longest);
  }
  return lengths;
}

// The number of rows of each response, and the response of each row that is not padding.
struct RowCounts {
  std::vector<std::int32_t> lengths, of_rows;
};

RowCounts count_rows(const data::Forest& forest) {
  RowCounts counts;
  for (std::size_t r = 0; r + 1 < forest.row_starts.size(); ++r) {
    counts.lengths.push_back(forest.row_starts[r + 1] - forest.row_starts[r]);
    counts.of_rows.resize(static_cast<std::size_t>(forest.row_starts[r + 1]), static_cast<std::int32_t>(r));
  }
  return counts;
}

std::span<std::int32_t> rows_of(data::Forest& forest, std::size_t response) {
  const auto begin = static_cast<std::size_t>(forest.row_starts[response]),
             end = static_cast<std::size_t>(forest.row_starts[response + 1]);
  return std::span(forest.rows).subspan(begin, end - begin);
}

bool is_unbranched(const data::Forest& forest) {
  for (std::size_t t = 0; t + 1 < forest.tree_responses.size(); ++t)
    if (forest.tree_responses[t + 1] != forest.tree_responses[t] + 1) return false;
  return true;
}

// Places every prompt before its response in a forest whose trees have one response each. The result has
// trees without prompts, whose attention needs no second part.
data::Forest joined(const data::Forest& forest) {
  data::Forest result = forest;
  std::int32_t end = 0;
  // Returns by how much the tokens moved.
  const auto append = [&](std::int32_t begin, std::int32_t count) {
    std::copy_n(forest.tokens.begin() + begin, count, result.tokens.begin() + end);
    std::copy_n(forest.positions.begin() + begin, count, result.positions.begin() + end);
    return std::exchange(end, end + count) - begin;
  };
  for (std::size_t t = 0; t + 1 < forest.prompt_starts.size(); ++t) {
    const std::int32_t prompt = forest.prompt_starts[t], response = forest.response_starts[t];
    const std::int32_t prompt_moved = append(prompt, forest.prompt_starts[t + 1] - prompt);
    const std::int32_t response_moved = append(response, forest.response_starts[t + 1] - response);
    result.response_starts[t + 1] = end;
    for (std::int32_t& row : rows_of(result, t)) row += row < response ? prompt_moved : response_moved;
  }
  result.response_starts[0] = 0;
  std::ranges::fill(result.prompt_starts, 0);
  return result;
}

// Drops the tokens of each response after the last one that the head reads. At least one stays.
void leave_out_unread(data::Forest& forest, std::vector<std::int32_t>& lengths) {
  std::int32_t begin = forest.response_starts[0], kept = begin;
  for (std::size_t r = 0; r + 1 < forest.response_starts.size(); ++r) {
    const std::int32_t end = forest.response_starts[r + 1], moved = begin - kept;
    const std::span<std::int32_t> rows = rows_of(forest, r);
    const std::int32_t last = rows.empty() ? begin : std::max(begin, rows.back());
    const std::int32_t count = std::min(last + 1, end) - begin;
    for (std::vector<std::int32_t>* values : {&forest.tokens, &forest.positions, &lengths})
      std::copy_n(values->begin() + begin, moved > 0 ? count : 0, values->begin() + kept);
    for (std::int32_t& row : rows)
      if (row >= begin) row -= moved;
    kept += count;
    forest.response_starts[r + 1] = kept;
    begin = end;
  }
  for (std::vector<std::int32_t>* values : {&forest.tokens, &forest.positions, &lengths})
    values->resize(static_cast<std::size_t>(kept));
}

// Adds `count` tokens as a separate sequence: a prompt without responses or, in a forest without prompts, a
// response. It is not in row_starts, so it has no score.
void pad_tokens(data::Forest& forest, std::int64_t count) {
  const bool has_prompts = forest.prompt_tokens() > 0;
  const auto size = static_cast<std::size_t>(count);
  const auto at = has_prompts ? forest.prompt_tokens() : forest.size();
  const auto added = static_cast<std::int32_t>(count);
  forest.tokens.insert(forest.tokens.begin() + at, size, forest.tokens.front());
  forest.positions.insert(forest.positions.begin() + at, size, 0);
  if (has_prompts) {
    for (std::int32_t& start : forest.response_starts) start += added;
    for (std::int32_t& row : forest.rows)
      if (row >= at) row += added;
  } else {
    forest.response_starts.push_back(forest.response_starts.back() + added);
  }
  forest.prompt_starts.push_back(has_prompts ? forest.prompt_starts.back() + added : 0);
  forest.tree_responses.push_back(static_cast<std::int32_t>(forest.responses()));
}

void pad_rows(data::Forest& forest, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  forest.rows.insert(forest.rows.end(), size, 0);
  forest.targets.insert(forest.targets.end(), size, 0);
  if (!forest.row_weights.empty()) forest.row_weights.insert(forest.row_weights.end(), size, 0);
}

// Returns how much `size` lacks to a multiple.
std::int64_t padding_of(std::int64_t size, std::int64_t multiple) {
  return (multiple - size % multiple) % multiple;
}

// The part of a forest that a pass computes, and the length of each token's tree.
struct Packed {
  data::Forest forest;
  std::vector<std::int32_t> lengths;
};

Packed pack(const data::Forest& whole, const ModelShape& shape, const BatchOptions& options) {
  if (options.all_tokens) return {whole, tree_lengths(whole)};
  data::Forest forest = is_unbranched(whole) ? joined(whole) : whole;
  std::vector<std::int32_t> lengths = tree_lengths(forest);
  if (shape.experts > 0) return {std::move(forest), std::move(lengths)};
  leave_out_unread(forest, lengths);
  if (const std::int64_t missing = padding_of(forest.size(), options.multiple); missing > 0) {
    const auto at = forest.prompt_tokens() > 0 ? forest.prompt_tokens() : forest.size();
    lengths.insert(lengths.begin() + at, static_cast<std::size_t>(missing), 1);
    pad_tokens(forest, missing);
  }
  pad_rows(forest, padding_of(static_cast<std::int64_t>(forest.rows.size()), options.multiple));
  return {std::move(forest), std::move(lengths)};
}

// The numbers of a batch's tensors, on the host.
struct HostBatch {
  Packed packed;
  RowCounts counts;
  ops::RowSumLists token_sums, row_sums;  // empty without the kernel that reads them
};

HostBatch host_batch(Packed packed, bool with_sums) {
  HostBatch host;
  host.packed = std::move(packed);
  const data::Forest& forest = host.packed.forest;
  host.counts = count_rows(forest);
  if (!with_sums) return host;
  host.token_sums = ops::make_row_sums(forest.tokens);
  host.row_sums = ops::make_row_sums(forest.rows);
  return host;
}

// Lists the tensors of a batch, with their numbers. Its layout and its row weights are not among them.
ops::Uploads tensors_of(Batch& batch, const HostBatch& host) {
  const data::Forest& forest = host.packed.forest;
  return {.longs = {{forest.tokens, &batch.tokens},
                    {forest.positions, &batch.positions},
                    {host.packed.lengths, &batch.lengths},
                    {forest.rows, &batch.rows},
                    {forest.targets, &batch.targets},
                    {host.counts.lengths, &batch.responses.lengths},
                    {host.counts.of_rows, &batch.responses.of_rows}},
          .ints = {{host.token_sums.rows, &batch.token_sums.rows},
                   {host.token_sums.starts, &batch.token_sums.starts},
                   {host.token_sums.source_rows, &batch.token_sums.source_rows},
                   {host.row_sums.rows, &batch.row_sums.rows},
                   {host.row_sums.starts, &batch.row_sums.starts},
                   {host.row_sums.source_rows, &batch.row_sums.source_rows}}};
}

}  // namespace

std::int64_t padded_multiple(std::int64_t tokens, const ModelShape& shape, at::Device device) {
  constexpr std::int64_t kTile = 128;       // rows of a tile, which matmuls compute at a time anyway
  constexpr double kMostOperations = 3e10;  // tokens * hidden^2, between Pythia-410M's and Llama-1B's
  const auto hidden = static_cast<double>(shape.hidden);
  return device.is_cuda() && static_cast<double>(tokens) * hidden * hidden < kMostOperations ? kTile : 1;
}

Batch make_batch(const data::Forest& whole, const ModelShape& shape, at::Device device,
                 const BatchOptions& options) {
  check(whole, shape);
  const bool with_sums = device.is_cuda() && ops::fused::has_kernels();
  const HostBatch host = host_batch(pack(whole, shape, options), with_sums);
  const auto& [forest, lengths] = host.packed;
  Batch batch;
  ops::Uploads uploads = tensors_of(batch, host);
  if (!with_sums) uploads.ints.clear();  // select_rows() sees from undefined tensors that there is no kernel
  std::vector<std::int32_t> sequences = forest.prompt_starts;
  sequences.insert(sequences.end(), forest.response_starts.begin() + 1, forest.response_starts.end());
  ops::ForestLayout layout = ops::make_layout(std::move(sequences), branch_starts(forest),
                                              forest.prompt_starts, device, std::move(uploads));
  if (!forest.row_weights.empty())
    batch.row_weights = ops::upload(at::tensor(forest.row_weights, at::kFloat), device);
  const auto longest = std::ranges::max_element(lengths);
  if (shape.window > 0 && longest != lengths.end() && *longest > shape.window)
    layout.window = ops::make_window(layout, shape.window);
  batch.layout = std::make_shared<const ops::ForestLayout>(std::move(layout));
  return batch;
}

Batch to_device(const Batch& batch, at::Device device) {
  if (batch.tokens.device() == device) return batch;
  Batch there = batch;
  const auto move = [device](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device);
  };
  const HostBatch no_numbers;
  const ops::Uploads tensors = tensors_of(there, no_numbers);
  for (const ops::Upload& index : tensors.longs) move(*index.to);
  for (const ops::Upload& sum : tensors.ints) move(*sum.to);
  move(there.row_weights);
  if (!batch.layout) return there;
  const ops::ForestLayout& here = *batch.layout;
  ops::ForestLayout layout =
      ops::make_layout(here.sequences.starts, here.branches.starts, here.prompts.starts, device);
  if (const auto& window = here.window)
    layout.window = {window->keys.to(device), ops::make_segments(window->segments.starts, device)};
  there.layout = std::make_shared<const ops::ForestLayout>(std::move(layout));
  return there;
}

}  // namespace dpo::model
