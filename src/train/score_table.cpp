#include "train/score_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/output_files.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::train {
namespace {

using checkpoint::Dtype;
using nlohmann::json;

template <class T>
checkpoint::TensorToWrite source_of(const std::string& name, Dtype dtype, const T& values) {
  return {name, dtype, {static_cast<std::int64_t>(values.size())}, [&values] {
            return std::as_bytes(std::span(values.data(), values.size()));
          }};
}

// Empty if there is no such tensor.
std::span<const std::byte> bytes_of(const checkpoint::SafetensorsFile& file, const std::string& name,
                                    Dtype dtype) {
  for (const checkpoint::Entry& entry : file.header().entries)
    if (entry.name == name && entry.dtype == dtype) return file.bytes_of(entry);
  return {};
}

bool has(const json& key, const std::string& name, const std::string& value) {
  if (!key.is_object()) return false;
  const auto found = key.find(name);
  return found != key.end() && found->is_string() && found->get_ref<const std::string&>() == value;
}

// Calls `action(index in the table, response of the forest)` for each response of each example.
template <class Action>
void for_each_compared(const data::Forest& forest, std::span<const std::uint32_t> indices,
                       const std::vector<std::int64_t>& starts, const Action& action) {
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    const auto example = indices[static_cast<std::size_t>(forest.examples[e])];
    std::int64_t entry = starts[example];
    for (std::int32_t i = forest.example_starts[e]; i < forest.example_starts[e + 1]; ++i, ++entry)
      action(static_cast<std::size_t>(entry),
             static_cast<std::size_t>(forest.compared[static_cast<std::size_t>(i)]));
    assert(entry == starts[example + 1]);
  }
}

}  // namespace

ScoreTable::ScoreTable(std::span<const std::int64_t> responses) {
  for (const std::int64_t count : responses) starts_.push_back(starts_.back() + count);
  scores_.assign(static_cast<std::size_t>(starts_.back()), std::numeric_limits<double>::quiet_NaN());
}

bool ScoreTable::knows(std::uint32_t example) const {
  const auto first = scores_.begin() + starts_[example], last = scores_.begin() + starts_[example + 1];
  return std::none_of(first, last, [](double score) { return std::isnan(score); });
}

std::vector<double> ScoreTable::of(const data::Forest& forest, std::span<const std::uint32_t> indices) const {
  std::vector<double> scores(static_cast<std::size_t>(forest.responses()));
  for_each_compared(forest, indices, starts_,
                    [&](std::size_t entry, std::size_t response) { scores[response] = scores_[entry]; });
  return scores;
}

void ScoreTable::set(const data::Forest& forest, std::span<const std::uint32_t> indices,
                     std::span<const double> scores) {
  for_each_compared(forest, indices, starts_,
                    [&](std::size_t entry, std::size_t response) { scores_[entry] = scores[response]; });
}

void ScoreTable::write(const std::filesystem::path& file, const Key& key) const {
  const std::string text = json(key).dump();
  make_own_folder(file.parent_path());
  checkpoint::write_safetensors(file,
                                {source_of("key", Dtype::U8, text), source_of("scores", Dtype::F64, scores_),
                                 source_of("starts", Dtype::I64, starts_)});
}

void ScoreTable::read(const std::filesystem::path& path, const Key& key) {
  const checkpoint::SafetensorsFile file(path);
  const auto text = bytes_of(file, "key", Dtype::U8);
  const json found = json::parse(reinterpret_cast<const char*>(text.data()),
                                 reinterpret_cast<const char*>(text.data() + text.size()), nullptr, false);
  for (const auto& [name, value] : key)
    if (!has(found, name, value))
      throw UserError(fmt::format(
          "{}: reference scores for a different {}; expected {}. Remove the file to compute them again",
          path.string(), name, value));
  const auto starts = bytes_of(file, "starts", Dtype::I64), scores = bytes_of(file, "scores", Dtype::F64);
  if (starts.size() != starts_.size() * sizeof(std::int64_t) ||
      std::memcmp(starts.data(), starts_.data(), starts.size()) != 0 ||
      scores.size() != scores_.size() * sizeof(double))
    throw UserError(fmt::format(
        "{}: reference scores for different examples. Remove the file to compute them again", path.string()));
  if (!scores.empty()) std::memcpy(scores_.data(), scores.data(), scores.size());
}

}  // namespace dpo::train
