#include "model/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include <ATen/ops/empty.h>

#include "data/parallel.h"

namespace dpo::model {
namespace {

// Numbers that look random from a key and a counter (SplitMix64), so that any part of a series can be made
// without the part before.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = mixed(seed);
  for (const char letter : name) key = mixed(key ^ static_cast<unsigned char>(letter));
  return key;
}

// Two numbers around 0 with deviation 1, from two that are even between 0 and 1 (Box and Muller).
std::pair<float, float> normal_pair(std::uint64_t key, std::uint64_t number) {
  constexpr double kUnit = 0x1p-53;
  const double first = (static_cast<double>(mixed(key ^ mixed(2 * number)) >> 11) + 1) * kUnit;  // never 0
  const double second = static_cast<double>(mixed(key ^ mixed(2 * number + 1)) >> 11) * kUnit;
  const double radius = std::sqrt(-2 * std::log(first)), angle = 2 * std::numbers::pi * second;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

void fill_normal(const at::Tensor& tensor, double deviation, std::uint64_t key) {
  constexpr std::int64_t kPiece = 1 << 22, kPart = 1 << 14;
  const auto scale = static_cast<float>(deviation);
  const at::Tensor flat = tensor.view({-1});
  at::Tensor drawn = at::empty({std::min(kPiece, flat.numel())}, at::TensorOptions().dtype(at::kFloat));
  float* const out = drawn.mutable_data_ptr<float>();
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, flat.numel() - begin);
    data::for_each_parallel(static_cast<std::size_t>((count + kPart - 1) / kPart), [&](std::size_t part) {
      const std::int64_t first = static_cast<std::int64_t>(part) * kPart;
      for (std::int64_t i = first; i < std::min(first + kPart, count); i += 2) {
        const auto [a, b] = normal_pair(key, static_cast<std::uint64_t>(begin + i) / 2);
        out[i] = a * scale;
        if (i + 1 < count) out[i + 1] = b * scale;
      }
    });
    flat.narrow(0, begin, count).copy_(drawn.narrow(0, 0, count));
  }
}

}  // namespace

void initialize(Weights& weights, const TensorTable& table, const ModelConfig& config, std::uint64_t seed) {
  const double range = config.settings.initializer_range;
  const double residual = range / std::sqrt(2.0 * static_cast<double>(config.shape.layers));
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (std::size_t j = 0; j < table.blocks[i].tensors.size(); ++j) {
      const Tensor& described = table.blocks[i].tensors[j];
      at::Tensor& tensor = weights.blocks[i].tensors[j].tensor;
      switch (described.init) {
        case Init::zeros: tensor.zero_(); break;
        case Init::ones: tensor.fill_(1); break;
        case Init::normal: fill_normal(tensor, range, key_of(seed, described.name)); break;
        case Init::residual: fill_normal(tensor, residual, key_of(seed, described.name)); break;
      }
      if (config.settings.padding_row && described.name == table.embedding_name)
        tensor.select(0, *config.settings.padding_row).zero_();
    }
}

}  // namespace dpo::model
