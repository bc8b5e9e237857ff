#include "model/batch.h"

#include <algorithm>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "base/error.h"

namespace dpo::model {
namespace {

at::Tensor long_tensor(const std::vector<std::int32_t>& values, at::Device device) {
  return at::tensor(values, at::kInt).to(device, at::kLong);
}

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

// Where each tree's responses begin, counted from the first response token.
std::vector<std::int32_t> branch_starts(const data::Forest& forest) {
  std::vector<std::int32_t> starts;
  for (const std::int32_t response : forest.tree_responses)
    starts.push_back(forest.response_starts[static_cast<std::size_t>(response)] -
                     forest.prompt_starts.back());
  return starts;
}

}  // namespace

Batch make_batch(const data::Forest& forest, const ModelShape& shape, at::Device device) {
  check(forest, shape);
  std::vector<std::int32_t> sequences = forest.prompt_starts;
  sequences.insert(sequences.end(), forest.response_starts.begin() + 1, forest.response_starts.end());
  Batch batch;
  batch.tokens = long_tensor(forest.tokens, device);
  batch.positions = long_tensor(forest.positions, device);
  batch.rows = long_tensor(forest.rows, device);
  batch.targets = long_tensor(forest.targets, device);
  if (!forest.row_weights.empty()) batch.row_weights = at::tensor(forest.row_weights, at::kFloat).to(device);
  batch.row_starts = forest.row_starts;
  batch.layout = std::make_shared<const ops::ForestLayout>(ops::ForestLayout{
      ops::make_segments(std::move(sequences), device), ops::make_segments(branch_starts(forest), device),
      ops::make_segments(forest.prompt_starts, device)});
  return batch;
}

Batch to_device(const Batch& batch, at::Device device) {
  if (batch.tokens.device() == device) return batch;
  const auto segments = [device](const ops::Segments& from) {
    return ops::make_segments(from.starts, device);
  };
  Batch there = batch;
  for (at::Tensor* tensor :
       {&there.tokens, &there.positions, &there.rows, &there.targets, &there.row_weights})
    if (tensor->defined()) *tensor = tensor->to(device);
  there.layout = std::make_shared<const ops::ForestLayout>(ops::ForestLayout{
      segments(batch.layout->sequences), segments(batch.layout->branches), segments(batch.layout->prompts)});
  return there;
}

}  // namespace dpo::model
