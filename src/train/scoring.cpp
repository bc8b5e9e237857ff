#include "train/scoring.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/text.h"

namespace dpo::train {
namespace {

std::span<const std::int32_t> compared_by(const data::Forest& forest, std::size_t example) {
  const auto start = static_cast<std::size_t>(forest.example_starts[example]);
  const auto end = static_cast<std::size_t>(forest.example_starts[example + 1]);
  return std::span(forest.compared).subspan(start, end - start);
}

const data::Example& example_of(const ExampleBatch& batch, const data::Forest& forest, std::size_t example) {
  return batch.examples[static_cast<std::size_t>(forest.examples[example])];
}

}  // namespace

std::vector<loss::Comparison> comparisons_of(const data::Forest& forest, const ExampleBatch& batch,
                                             const loss::Options& options) {
  std::vector<loss::Comparison> comparisons;
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    const auto compared = compared_by(forest, e);
    const data::Example& example = example_of(batch, forest, e);
    if (!loss::is_unpaired(options)) {
      comparisons.push_back({.responses = {compared.begin(), compared.end()},
                             .weight = example.weight,
                             .margin = example.margin});
      continue;
    }
    for (std::size_t i = 0; i < compared.size(); ++i)
      comparisons.push_back({.responses = {compared[i]}, .desirable = i == 0, .weight = example.weight});
  }
  return comparisons;
}

std::vector<loss::Score> scores_of(const data::Forest& forest, const std::vector<double>& policy,
                                   const std::vector<double>& reference) {
  std::vector<loss::Score> scores;
  for (std::size_t r = 0; r < policy.size(); ++r)
    scores.push_back({policy[r], reference[r], forest.row_starts[r + 1] - forest.row_starts[r]});
  return scores;
}

std::vector<Record> records_of(const data::Forest& forest, const std::vector<loss::Score>& scores,
                               const std::vector<double>& losses, const ExampleBatch& batch) {
  const std::size_t per_example = losses.size() / std::max<std::size_t>(1, forest.examples.size());
  std::vector<Record> records;
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    Record record;
    record.example = batch.numbers[static_cast<std::size_t>(forest.examples[e])];
    for (std::size_t i = 0; i < per_example; ++i) record.loss += losses[e * per_example + i];
    if (per_example > 0)
      record.loss *= example_of(batch, forest, e).weight / static_cast<double>(per_example);
    for (const std::int32_t response : compared_by(forest, e)) {
      const loss::Score& score = scores[static_cast<std::size_t>(response)];
      record.policy.push_back(score.policy);
      record.reference.push_back(score.reference);
      record.tokens.push_back(score.tokens);
    }
    records.push_back(std::move(record));
  }
  return records;
}

void check_margins(const data::Examples& examples, const loss::Options& options) {
  if (loss::uses_margin(options)) return;
  for (const data::SourceCounts& counts : examples.counts())
    if (counts.with_margin > 0)
      throw UserError(fmt::format(
          "datasets: '{}' has {} pairs with a margin, which loss={} does not know; take another loss "
          "(docs/losses.md), or read no margins: data.columns={{margin: none}}",
          config::shown(counts.name), counts.with_margin, name_of(options.name)));
}

}  // namespace dpo::train
