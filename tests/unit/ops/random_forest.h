#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include "ops/forest_attention.h"

namespace dpo::ops {

struct Forest {
  std::shared_ptr<const ForestLayout> layout;
  at::Tensor allowed;  // bool [tokens, tokens]: whether the query of a row may attend to the key of a column
};

// Returns trees of 0 to 8 responses; some forests have no prompts. A prompt has up to 12 tokens and a
// response up to 20, or `stretch` times as many. Some have none, and some about 16, 32 or 64, the sizes of
// the kernels' tiles.
inline Forest random_forest(std::mt19937& random, at::Device device, int trees, int stretch,
                            std::int64_t window) {
  const auto draw = [&random](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto draw_length = [&](int most) {
    constexpr std::array kEdges{15, 16, 17, 31, 32, 33, 63, 64, 65};
    switch (draw(0, 7)) {
      case 0: return 0;
      case 1: return 1;
      case 2: return kEdges[static_cast<std::size_t>(draw(0, kEdges.size() - 1))];
      default: return draw(1, most * stretch);
    }
  };
  const bool has_prompts = draw(0, 5) > 0;
  std::vector<std::int32_t> prompts{0}, branches{0}, sequences{0};
  std::vector<std::vector<std::int32_t>> responses;
  for (int t = 0; t < trees; ++t) {
    prompts.push_back(prompts.back() + (has_prompts ? draw_length(12) : 0));
    sequences.push_back(prompts.back());
    responses.emplace_back();
    for (int r = draw(0, 8); r > 0; --r) responses.back().push_back(draw_length(20));
  }
  for (const auto& of_tree : responses) {
    branches.push_back(branches.back());
    for (const std::int32_t length : of_tree) {
      branches.back() += length;
      sequences.push_back(sequences.back() + length);
    }
  }
  at::Tensor allowed = at::zeros({sequences.back(), sequences.back()}, at::kBool);
  at::Tensor positions = at::zeros({sequences.back()}, at::kLong);
  std::int64_t sequence = trees;
  for (std::size_t i = 0; i + 1 < sequences.size(); ++i)
    for (std::int32_t q = sequences[i]; q < sequences[i + 1]; ++q) {
      allowed[q].narrow(0, sequences[i], q - sequences[i] + 1).fill_(true);
      positions[q] = q - sequences[i];
    }
  for (std::size_t t = 0; t < responses.size(); ++t)
    for (std::size_t r = 0; r < responses[t].size(); ++r, ++sequence)
      for (std::int32_t q = sequences[static_cast<std::size_t>(sequence)];
           q < sequences[static_cast<std::size_t>(sequence) + 1]; ++q) {
        allowed[q].narrow(0, prompts[t], prompts[t + 1] - prompts[t]).fill_(true);
        positions[q] += prompts[t + 1] - prompts[t];
      }
  ForestLayout layout = make_layout(sequences, branches, prompts, device);
  if (window > 0) {
    layout.window = make_window(layout, window);
    allowed = allowed.logical_and(positions.unsqueeze(1) - positions.unsqueeze(0) < window);
  }
  return {std::make_shared<const ForestLayout>(std::move(layout)), allowed.to(device)};
}

}  // namespace dpo::ops
