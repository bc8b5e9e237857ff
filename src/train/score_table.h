#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/forest.h"

namespace dpo::train {

// Reference log-probabilities of a split's responses, by example; NaN where not computed yet.
class ScoreTable {
 public:
  ScoreTable() = default;
  // `responses`: how many each example has.
  explicit ScoreTable(std::span<const std::int64_t> responses);

  bool knows(std::uint32_t example) const;

  // The scores of a forest's responses. Its examples are numbered within a batch; `indices` are those of the
  // batch's examples in the split.
  std::vector<double> of(const data::Forest& forest, std::span<const std::uint32_t> indices) const;
  void set(const data::Forest& forest, std::span<const std::uint32_t> indices,
           std::span<const double> scores);

  // The file is a safetensors file with the arrays `starts` and `scores` and, as JSON, the `key`: what the
  // scores depend on. It is complete or absent.
  using Key = std::map<std::string, std::string>;
  void write(const std::filesystem::path& file, const Key& key) const;

  // Another key or size is a UserError that says what differs.
  void read(const std::filesystem::path& file, const Key& key);

 private:
  std::vector<std::int64_t> starts_ = {0};  // [examples + 1], into scores
  std::vector<double> scores_;
};

}  // namespace dpo::train
