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
#include "base/sha256.h"
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

// Returns the bytes of a tensor, empty if there is no such tensor.
std::span<const std::byte> bytes_of(const checkpoint::SafetensorsFile& file, const std::string& name,
                                    Dtype dtype) {
  for (const checkpoint::Entry& entry : file.header().entries)
    if (entry.name == name && entry.dtype == dtype) return file.bytes_of(entry);
  return {};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr const char* kChecksum = "sha256";

// Returns the checksum of a file's parts in this order, each with its size.
std::string checksum_of(const std::vector<std::span<const std::byte>>& parts) {
  Sha256 sum;
  for (const std::span<const std::byte> part : parts) {
    sum.add(fmt::format("{}\n", part.size()));
    sum.add(part);
  }
  return to_hex(sum.finish());
}

// Calls `action(index in the table, response of the forest)` for each response of each example that the
// forest has.
template <class Action>
void for_each_compared(const data::Forest& forest, std::span<const std::uint32_t> indices,
                       const std::vector<std::int64_t>& starts, const Action& action) {
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    const auto example = indices[static_cast<std::size_t>(forest.examples[e])];
    std::int64_t entry = starts[example];
    for (std::int32_t i = forest.example_starts[e]; i < forest.example_starts[e + 1]; ++i, ++entry) {
      const std::int32_t response = forest.compared[static_cast<std::size_t>(i)];
      if (response < forest.responses())
        action(static_cast<std::size_t>(entry), static_cast<std::size_t>(response));
    }
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

void ScoreTable::add(const ScoreTable& other) {
  assert(starts_ == other.starts_);
  for (std::size_t i = 0; i < scores_.size(); ++i)
    if (std::isnan(scores_[i])) scores_[i] = other.scores_[i];
}

std::string ScoreTable::bytes() const { return std::string(text_of(std::as_bytes(std::span(scores_)))); }

void ScoreTable::set_bytes(std::string_view bytes) {
  assert(bytes.size() == scores_.size() * sizeof(double));
  if (!bytes.empty()) std::memcpy(scores_.data(), bytes.data(), bytes.size());
}

void ScoreTable::write(const std::filesystem::path& file, const Key& key, const std::string& about) const {
  const std::string text = json(key).dump();
  const std::string sum = checksum_of({std::as_bytes(std::span(text)), std::as_bytes(std::span(about)),
                                       std::as_bytes(std::span(starts_)), std::as_bytes(std::span(scores_))});
  make_own_folder(file.parent_path());
  checkpoint::write_safetensors(
      file, {source_of("key", Dtype::U8, text), source_of("about", Dtype::U8, about),
             source_of(kChecksum, Dtype::U8, sum), source_of("scores", Dtype::F64, scores_),
             source_of("starts", Dtype::I64, starts_)});
}

bool ScoreTable::read(const std::filesystem::path& path, const Key& key, std::string& why) {
  std::error_code none;
  why.clear();
  if (!std::filesystem::exists(path, none)) return false;
  why = "damaged";
  try {
    const checkpoint::SafetensorsFile file(path);
    const auto text = bytes_of(file, "key", Dtype::U8), about = bytes_of(file, "about", Dtype::U8),
               starts = bytes_of(file, "starts", Dtype::I64), scores = bytes_of(file, "scores", Dtype::F64);
    if (text_of(bytes_of(file, kChecksum, Dtype::U8)) != checksum_of({text, about, starts, scores}))
      return false;
    if (text_of(text) != json(key).dump() || starts.size() != starts_.size() * sizeof(std::int64_t) ||
        std::memcmp(starts.data(), starts_.data(), starts.size()) != 0 ||
        scores.size() != scores_.size() * sizeof(double))
      return why = "of another run", false;
    set_bytes(text_of(scores));
  } catch (const UserError&) {
    return false;
  }
  why.clear();
  return true;
}

}  // namespace dpo::train
