#include "data/order.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace dpo::data {

ExampleOrder::ExampleOrder(std::span<const std::uint32_t> starts, std::uint32_t seed, OrderLimits limits)
    : starts_(starts.begin(), starts.end()),
      prompts_(starts.size() - 1),
      epoch_seeds_(seed),
      limits_(limits) {
  // Without a limit on epochs, next() would search for a first batch forever.
  if (starts_.back() < limits_.batch_size && !limits_.epochs)
    throw std::invalid_argument("fewer examples than a batch");
  std::iota(prompts_.begin(), prompts_.end(), 0u);
  at_ = prompts_.size();
}

bool ExampleOrder::is_over() const {
  const bool enough = limits_.examples && given_ >= *limits_.examples;
  return enough || (limits_.epochs && epoch_ >= *limits_.epochs);
}

void ExampleOrder::begin_epoch() {
  ++epoch_;
  at_ = 0;
  example_ = 0;
  if (limits_.epochs && epoch_ >= *limits_.epochs) return;
  PythonRandom(static_cast<std::uint32_t>(epoch_seeds_())).shuffle(prompts_);
}

std::int64_t ExampleOrder::next_size() const {
  if (!limits_.keeps_all) return limits_.batch_size;
  const auto ceiling = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t all = starts_.back();
  const std::int64_t left = std::min(limits_.examples.value_or(all), all) - given_;
  return ceiling(left, ceiling(left, limits_.batch_size));
}

std::optional<std::vector<std::uint32_t>> ExampleOrder::next() {
  std::vector<std::uint32_t> batch;
  // The limit on examples is checked between batches only, as in the original.
  if (epoch_ >= 0 && is_over()) return std::nullopt;
  const auto size = static_cast<std::size_t>(next_size());
  while (batch.size() < size) {
    if (at_ == prompts_.size()) {
      begin_epoch();
      batch.clear();
      if (limits_.epochs && epoch_ >= *limits_.epochs) return std::nullopt;
      continue;
    }
    const std::uint32_t prompt = prompts_[at_];
    if (starts_[prompt] + example_ == starts_[prompt + 1]) {
      ++at_;
      example_ = 0;
      continue;
    }
    batch.push_back(starts_[prompt] + example_++);
    ++given_;
  }
  return batch;
}

}  // namespace dpo::data
