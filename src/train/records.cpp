#include "train/records.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "config/losses.h"
#include "config/text.h"

namespace dpo::train {
namespace {

constexpr std::size_t kPerResponse = 3;

bool is_unpaired(const config::LossConfig& loss) {
  return facts_of(loss.name).examples == config::ExampleKind::Unpaired;
}

std::span<const std::int32_t> compared_by(const data::Forest& forest, std::size_t example) {
  const auto start = static_cast<std::size_t>(forest.example_starts[example]);
  const auto end = static_cast<std::size_t>(forest.example_starts[example + 1]);
  return std::span(forest.compared).subspan(start, end - start);
}

bool is_here(const data::Forest& forest, std::int32_t response) { return response < forest.responses(); }

const data::Example& example_of(const ExampleBatch& batch, const data::Forest& forest, std::size_t example) {
  return batch.examples[static_cast<std::size_t>(forest.examples[example])];
}

}  // namespace

std::vector<loss::Comparison> comparisons_of(const data::Forest& forest, const ExampleBatch& batch,
                                             const config::LossConfig& loss) {
  const bool unpaired = is_unpaired(loss);
  std::vector<loss::Comparison> comparisons;
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    const auto compared = compared_by(forest, e);
    const data::Example& example = example_of(batch, forest, e);
    if (!unpaired) {
      comparisons.push_back({.responses = {compared.begin(), compared.end()},
                             .weight = example.weight,
                             .margin = example.margin});
      continue;
    }
    for (std::size_t i = 0; i < compared.size(); ++i) {
      const bool desirable = compared.size() > 1 ? i == 0 : example.desirable;
      comparisons.push_back({.responses = {compared[i]}, .desirable = desirable, .weight = example.weight});
    }
  }
  return comparisons;
}

std::size_t count_comparisons(const ExampleBatch& batch, const config::LossConfig& loss) {
  if (!is_unpaired(loss)) return batch.examples.size();
  std::size_t count = 0;
  for (const data::Example& example : batch.examples) count += example.responses.size();
  return count;
}

std::vector<loss::Score> scores_of(const data::Forest& forest, const std::vector<double>& policy,
                                   const std::vector<double>& reference) {
  std::vector<loss::Score> scores;
  for (std::size_t r = 0; r < policy.size(); ++r)
    scores.push_back({policy[r], reference[r], forest.row_starts[r + 1] - forest.row_starts[r]});
  scores.resize(scores.size() + static_cast<std::size_t>(forest.elsewhere), {0, 0, 0});
  return scores;
}

std::vector<Record> records_of(const data::Forest& forest, const std::vector<loss::Score>& scores,
                               const std::vector<double>& losses, const ExampleBatch& batch) {
  // An example has one comparison, or with an unpaired loss one for each response.
  const bool by_example = losses.size() == forest.examples.size();
  auto loss = losses.begin();
  std::vector<Record> records;
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    const data::Example& example = example_of(batch, forest, e);
    Record record;
    record.example = batch.indices[static_cast<std::size_t>(forest.examples[e])];
    record.desirable = example.desirable;
    if (!losses.empty()) {
      const auto comparisons = by_example ? 1 : std::ssize(example.responses);
      if (is_here(forest, compared_by(forest, e).front())) {
        record.loss = std::accumulate(loss, loss + comparisons, 0.0);
        record.loss *= example.weight / static_cast<double>(comparisons);
      }
      loss += comparisons;
    }
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

BatchRecords::BatchRecords(const ExampleBatch& batch) : batch_(batch) {
  std::size_t size = 0;
  for (const data::Example& example : batch.examples) {
    starts_.push_back(size);
    size += 1 + kPerResponse * example.responses.size();
  }
  values_.resize(size);
}

void BatchRecords::add(const data::Forest& forest, const std::vector<Record>& records) {
  for (std::size_t e = 0; e < records.size(); ++e) {
    std::size_t at = starts_[static_cast<std::size_t>(forest.examples[e])];
    values_[at++] = records[e].loss;
    for (std::size_t i = 0; i < records[e].policy.size(); ++i) {
      values_[at++] = records[e].policy[i];
      values_[at++] = records[e].reference[i];
      values_[at++] = static_cast<double>(records[e].tokens[i]);
    }
  }
}

shard::PendingSums BatchRecords::start_gathering(const shard::Mesh& mesh,
                                                 std::span<const double> numbers) const {
  std::vector<double> values = values_;
  values.insert(values.end(), numbers.begin(), numbers.end());
  return {*mesh.data, std::move(values), mesh.device};
}

std::vector<Record> BatchRecords::gather(const shard::Mesh& mesh) const {
  return gathered(start_gathering(mesh).get());
}

std::vector<Record> BatchRecords::gathered(std::span<const double> sums) const {
  std::vector<Record> records;
  for (std::size_t e = 0; e < starts_.size(); ++e) {
    std::size_t at = starts_[e];
    Record record{batch_.indices[e], sums[at++], {}, {}, {}, batch_.examples[e].desirable};
    for (std::size_t i = 0; i < batch_.examples[e].responses.size(); ++i) {
      record.policy.push_back(sums[at++]);
      record.reference.push_back(sums[at++]);
      record.tokens.push_back(static_cast<std::int64_t>(sums[at++]));
    }
    records.push_back(std::move(record));
  }
  return records;
}

void exchange_scores(const data::Forest& forest, std::vector<loss::Score>& scores, const ExampleBatch& batch,
                     const shard::Mesh& mesh) {
  BatchRecords exchanged(batch);
  exchanged.add(forest, records_of(forest, scores, {}, batch));
  const std::vector<Record> records = exchanged.gather(mesh);
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    const Record& record = records[static_cast<std::size_t>(forest.examples[e])];
    const auto compared = compared_by(forest, e);
    for (std::size_t i = 0; i < compared.size(); ++i)
      if (!is_here(forest, compared[i]))
        scores[static_cast<std::size_t>(compared[i])] = {record.policy[i], record.reference[i],
                                                         record.tokens[i]};
  }
}

data::Forest unshared_forest(const ExampleBatch& batch) {
  data::Forest forest;
  forest.example_starts.push_back(0);
  for (std::size_t e = 0; e < batch.examples.size(); ++e) {
    forest.examples.push_back(static_cast<std::int64_t>(e));
    forest.example_starts.push_back(forest.example_starts.back() +
                                    static_cast<std::int32_t>(batch.examples[e].responses.size()));
  }
  forest.compared.resize(static_cast<std::size_t>(forest.example_starts.back()));
  forest.response_starts.assign(forest.compared.size() + 1, 0);
  std::iota(forest.compared.begin(), forest.compared.end(), 0);
  return forest;
}

std::vector<loss::Score> unshared_scores(const std::vector<Record>& records) {
  std::vector<loss::Score> scores;
  for (const Record& record : records)
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      scores.push_back({record.policy[i], record.reference[i], record.tokens[i]});
  return scores;
}

std::vector<double> shared_gradients(const data::Forest& forest, const data::Forest& unshared,
                                     const std::vector<double>& gradients) {
  std::vector<double> sums(static_cast<std::size_t>(forest.responses()));
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    auto at = static_cast<std::size_t>(unshared.example_starts[static_cast<std::size_t>(forest.examples[e])]);
    for (const std::int32_t response : compared_by(forest, e)) {
      if (is_here(forest, response)) sums[static_cast<std::size_t>(response)] += gradients[at];
      ++at;
    }
  }
  return sums;
}

void check_margins(const data::Examples& examples, const config::LossConfig& loss) {
  if (facts_of(loss.name).has_margins) return;
  for (const data::SourceCounts& counts : examples.counts())
    if (counts.with_margin > 0)
      throw UserError(fmt::format(
          "datasets: '{}' has {} pairs with a margin, which loss={} does not use; choose another loss "
          "(docs/losses.md), or ignore margins: data.columns={{margin: none}}",
          config::shown(counts.name), counts.with_margin, name_of(loss.name)));
}

}  // namespace dpo::train
