#include "train/batch_records.h"

#include <numeric>

namespace dpo::train {
namespace {

constexpr std::size_t kPerResponse = 3;

}  // namespace

BatchRecords::BatchRecords(const ExampleBatch& batch) : batch_(batch) {
  std::size_t size = 0;
  for (const data::Example& example : batch.examples) {
    starts_.push_back(size);
    size += 1 + kPerResponse * example.responses.size();
  }
  numbers_.resize(size);
}

void BatchRecords::add(const data::Forest& forest, const std::vector<Record>& records) {
  for (std::size_t e = 0; e < records.size(); ++e) {
    std::size_t at = starts_[static_cast<std::size_t>(forest.examples[e])];
    numbers_[at++] = records[e].loss;
    for (std::size_t i = 0; i < records[e].policy.size(); ++i) {
      numbers_[at++] = records[e].policy[i];
      numbers_[at++] = records[e].reference[i];
      numbers_[at++] = static_cast<double>(records[e].tokens[i]);
    }
  }
}

std::vector<Record> BatchRecords::exchanged(const shard::Mesh& mesh) const {
  std::vector<double> numbers = numbers_;
  shard::sum_over(*mesh.data, numbers, mesh.device);
  std::vector<Record> records;
  for (std::size_t e = 0; e < starts_.size(); ++e) {
    std::size_t at = starts_[e];
    Record record{batch_.numbers[e], numbers[at++], {}, {}, {}};
    for (std::size_t i = 0; i < batch_.examples[e].responses.size(); ++i) {
      record.policy.push_back(numbers[at++]);
      record.reference.push_back(numbers[at++]);
      record.tokens.push_back(static_cast<std::int64_t>(numbers[at++]));
    }
    records.push_back(std::move(record));
  }
  return records;
}

data::Forest listed(const ExampleBatch& batch) {
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

std::vector<loss::Score> listed_scores(const std::vector<Record>& records) {
  std::vector<loss::Score> scores;
  for (const Record& record : records)
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      scores.push_back({record.policy[i], record.reference[i], record.tokens[i]});
  return scores;
}

std::vector<double> gradients_in(const data::Forest& forest, const data::Forest& listed,
                                 const std::vector<double>& gradients) {
  std::vector<double> sums(static_cast<std::size_t>(forest.responses()));
  for (std::size_t e = 0; e < forest.examples.size(); ++e) {
    auto at = static_cast<std::size_t>(listed.example_starts[static_cast<std::size_t>(forest.examples[e])]);
    for (std::int32_t i = forest.example_starts[e]; i < forest.example_starts[e + 1]; ++i)
      sums[static_cast<std::size_t>(forest.compared[static_cast<std::size_t>(i)])] += gradients[at++];
  }
  return sums;
}

}  // namespace dpo::train
