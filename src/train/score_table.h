#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/forest.h"

namespace dpo::train {

// Reference log-probabilities of a split's responses, by example; NaN where not computed yet.
class ScoreTable {
 public:
  ScoreTable() = default;
  // `responses` has the number of responses of each example.
  explicit ScoreTable(std::span<const std::int64_t> responses);

  bool knows(std::uint32_t example) const;

  // Returns the scores of a forest's responses. Its examples are numbered within a batch; `indices` has the
  // numbers of the batch's examples in the split.
  std::vector<double> of(const data::Forest& forest, std::span<const std::uint32_t> indices) const;
  void set(const data::Forest& forest, std::span<const std::uint32_t> indices,
           std::span<const double> scores);

  // Adds the scores that this table does not have.
  void add(const ScoreTable& other);

  // Converts the scores to bytes for the other ranks, and back.
  std::string bytes() const;
  void set_bytes(std::string_view bytes);

  // The file is a safetensors file with the arrays `starts` and `scores`, the `key` (what the scores depend
  // on, as JSON), `about` (for `dpo cache`), and the SHA-256 of all four. It is complete or absent.
  using Key = std::map<std::string, std::string>;
  void write(const std::filesystem::path& file, const Key& key, const std::string& about) const;

  // Returns false if there is no such file, or if it is damaged or has another key; then `why` says so.
  bool read(const std::filesystem::path& file, const Key& key, std::string& why);

 private:
  std::vector<std::int64_t> starts_ = {0};  // [examples + 1], into scores
  std::vector<double> scores_;
};

}  // namespace dpo::train
