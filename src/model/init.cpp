#include "model/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/parallel.h"
#include "base/splitmix64.h"

namespace dpo::model {
namespace {

// Returns two standard normal numbers, made of two uniform ones (Box-Muller).
std::pair<float, float> normal_pair(std::uint64_t key, std::uint64_t number) {
  constexpr double kUnit = 0x1p-53;
  const double first =
      (static_cast<double>(splitmix64(key ^ splitmix64(2 * number)) >> 11) + 1) * kUnit;  // never 0
  const double second = static_cast<double>(splitmix64(key ^ splitmix64(2 * number + 1)) >> 11) * kUnit;
  const double radius = std::sqrt(-2 * std::log(first)), angle = 2 * std::numbers::pi * second;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

// Draws the elements of a stream of normal numbers, from element `from` on.
void draw_normal(std::span<float> out, std::int64_t from, float scale, std::uint64_t key) {
  std::size_t i = 0;
  if (from % 2 != 0 && !out.empty())
    out[i++] = normal_pair(key, static_cast<std::uint64_t>(from / 2)).second * scale;
  for (; i < out.size(); i += 2) {
    const auto [a, b] = normal_pair(key, (static_cast<std::uint64_t>(from) + i) / 2);
    out[i] = a * scale;
    if (i + 1 < out.size()) out[i + 1] = b * scale;
  }
}

// Draws the elements of a stream of uniform numbers between -scale and scale, from element `from` on.
void draw_uniform(std::span<float> out, std::int64_t from, float scale, std::uint64_t key) {
  constexpr double kUnit = 0x1p-52;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t random = splitmix64(key ^ splitmix64(static_cast<std::uint64_t>(from) + i));
    out[i] = static_cast<float>(static_cast<double>(random >> 11) * kUnit - 1) * scale;
  }
}

// Fills `flat` with these ranges of the stream that `draw` draws.
void fill(const at::Tensor& flat, const std::vector<Range>& ranges, decltype(draw_normal)* draw, double scale,
          std::uint64_t key) {
  constexpr std::int64_t kPiece = 1 << 22, kPart = 1 << 14;
  at::Tensor drawn = at::empty({std::min(kPiece, flat.numel())}, at::TensorOptions().dtype(at::kFloat));
  struct Part {
    std::int64_t to;  // in `drawn`
    Range range;
  };
  std::vector<Part> parts;  // that fit into `drawn`
  std::int64_t begin = 0, filled = 0;
  const auto flush = [&] {
    for_each_parallel(parts.size(), [&](std::size_t i) {
      const auto& [to, range] = parts[i];
      draw({drawn.mutable_data_ptr<float>() + to, static_cast<std::size_t>(range.count)}, range.from,
           static_cast<float>(scale), key);
    });
    flat.narrow(0, begin, filled).copy_(drawn.narrow(0, 0, filled));
    begin += std::exchange(filled, 0);
    parts.clear();
  };
  for (const Range& range : ranges)
    for (std::int64_t done = 0; done < range.count; done += kPart) {
      const std::int64_t count = std::min(kPart, range.count - done);
      if (filled + count > kPiece) flush();
      parts.push_back({filled, {range.from + done, count}});
      filled += count;
    }
  flush();
}

// Zeroes the elements of `flat` that belong to [first, last) of the tensor.
void clear_elements(const at::Tensor& flat, const std::vector<Range>& ranges, std::int64_t first,
                    std::int64_t last) {
  std::int64_t to = 0;
  for (const Range& range : ranges) {
    const std::int64_t begin = std::max(range.from, first), end = std::min(range.from + range.count, last);
    if (begin < end) flat.narrow(0, to + begin - range.from, end - begin).zero_();
    to += range.count;
  }
}

}  // namespace

void initialize(Weights& weights, const TensorTable& table, const ModelConfig& config, std::uint64_t seed,
                const Layout& layout) {
  const double range = config.settings.initializer_range;
  const double residual = range / std::sqrt(2.0 * static_cast<double>(config.shape.layers));
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (const HeldTensor& held : held_tensors(table.blocks[i], layout)) {
      const TensorInfo& described = table.blocks[i].tensors[held.tensor];
      const at::Tensor flat = weights.blocks[i].flat.narrow(0, held.to, held.count);
      const std::uint64_t key = key_of(splitmix64(seed), described.name);
      switch (described.init) {
        case Init::zeros: flat.zero_(); break;
        case Init::ones: flat.fill_(1); break;
        case Init::normal: fill(flat, held.ranges, draw_normal, range, key); break;
        case Init::residual: fill(flat, held.ranges, draw_normal, residual, key); break;
        case Init::kaiming_uniform: {
          const auto inputs = static_cast<double>(described.shape[1]);
          fill(flat, held.ranges, draw_uniform, 1 / std::sqrt(inputs), key);
          break;
        }
      }
      if (const auto& row = config.settings.padding_row; row && described.name == table.embedding_name) {
        const std::int64_t width = described.shape[1];
        clear_elements(flat, held.ranges, *row * width, (*row + 1) * width);
      }
    }
}

}  // namespace dpo::model
