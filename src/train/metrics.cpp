#include "train/metrics.h"

#include <cmath>
#include <functional>
#include <limits>

namespace dpo::train {
namespace {

double mean_of(std::span<const Record> records, const std::function<double(const Record&)>& value) {
  double sum = 0;
  for (const Record& record : records) sum += value(record);
  return sum / static_cast<double>(records.size());
}

double divergence_of(std::span<const Record> records) {
  double drift = 0, tokens = 0;
  for (const Record& record : records)
    for (std::size_t i = 0; i < record.policy.size(); ++i) {
      drift += record.policy[i] - record.reference[i];
      tokens += static_cast<double>(record.tokens[i]);
    }
  return -drift / std::max(1.0, tokens);
}

// The share of the ordered pairs of responses whose rewards have that order.
double accuracy_of(const Record& record) {
  const auto drift = [&](std::size_t place) { return record.policy[place] - record.reference[place]; };
  int right = 0, all = 0;
  for (std::size_t i = 0; i < record.policy.size(); ++i)
    for (std::size_t j = i + 1; j < record.policy.size(); ++j, ++all) right += drift(i) > drift(j);
  return static_cast<double>(right) / all;
}

}  // namespace

Metrics metrics_of(std::span<const Record> records, const loss::Options& loss, const std::string& stage) {
  const auto reward = [&loss](const Record& record, std::size_t place) {
    return loss.beta * (record.policy[place] - record.reference[place]);
  };
  const auto last = [](const Record& record) { return record.policy.size() - 1; };
  const auto mean = [records](const auto& value) { return mean_of(records, value); };
  Metrics metrics;
  const auto add = [&metrics](const std::string& name, double value) { metrics.emplace_back(name, value); };
  const bool pairs = !records.empty() && records.front().policy.size() > 1;
  add("loss/" + stage, mean([](const Record& r) { return r.loss; }));
  if (pairs) {
    const std::string rewards = "rewards_" + stage + "/";
    add(rewards + "chosen", mean([&](const Record& r) { return reward(r, 0); }));
    add(rewards + "rejected", mean([&](const Record& r) { return reward(r, last(r)); }));
    add(rewards + "accuracies", mean([&](const Record& r) { return accuracy_of(r); }));
    add(rewards + "margins", mean([&](const Record& r) { return reward(r, 0) - reward(r, last(r)); }));
  }
  add("logps_" + stage + "/chosen", mean([](const Record& r) { return r.policy[0]; }));
  if (pairs) add("logps_" + stage + "/rejected", mean([](const Record& r) { return r.policy.back(); }));
  add("tokens_" + stage + "/chosen",
      mean([](const Record& r) { return static_cast<double>(r.tokens.front()); }));
  if (!pairs) return metrics;
  add("tokens_" + stage + "/rejected",
      mean([](const Record& r) { return static_cast<double>(r.tokens.back()); }));
  if (!loss::uses_reference(loss)) return metrics;
  add("drift_" + stage + "/chosen", mean([](const Record& r) { return r.policy[0] - r.reference[0]; }));
  add("drift_" + stage + "/rejected",
      mean([](const Record& r) { return r.policy.back() - r.reference.back(); }));
  add("kl_" + stage + "/per_token", divergence_of(records));
  return metrics;
}

double value_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [known, value] : metrics)
    if (known == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace dpo::train
