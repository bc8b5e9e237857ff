#include "run/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>

namespace dpo::run {
namespace {

double mean_of(std::span<const train::Record> records,
               const std::function<double(const train::Record&)>& value) {
  double sum = 0;
  for (const train::Record& record : records) sum += value(record);
  return sum / static_cast<double>(records.size());
}

double divergence_of(std::span<const train::Record> records) {
  double drift = 0, tokens = 0;
  for (const train::Record& record : records)
    for (std::size_t i = 0; i < record.policy.size(); ++i) {
      drift += record.policy[i] - record.reference[i];
      tokens += static_cast<double>(record.tokens[i]);
    }
  return -drift / std::max(1.0, tokens);
}

// The share of the pairs of responses whose rewards have the order of the responses.
double accuracy_of(const train::Record& record) {
  const auto drift = [&](std::size_t i) { return record.policy[i] - record.reference[i]; };
  int right = 0, all = 0;
  for (std::size_t i = 0; i < record.policy.size(); ++i)
    for (std::size_t j = i + 1; j < record.policy.size(); ++j, ++all) right += drift(i) > drift(j);
  return static_cast<double>(right) / all;
}

}  // namespace

Metrics metrics_of(std::span<const train::Record> records, const loss::Options& loss,
                   const std::string& stage) {
  const auto reward = [&loss](const train::Record& record, std::size_t i) {
    return loss.beta * (record.policy[i] - record.reference[i]);
  };
  const auto last = [](const train::Record& record) { return record.policy.size() - 1; };
  const auto mean = [records](const auto& value) { return mean_of(records, value); };
  Metrics metrics;
  const auto add = [&metrics](const std::string& name, double value) { metrics.emplace_back(name, value); };
  const bool pairs = !records.empty() && records.front().policy.size() > 1;
  add("loss/" + stage, mean([](const train::Record& r) { return r.loss; }));
  if (pairs) {
    const std::string rewards = "rewards_" + stage + "/";
    add(rewards + "chosen", mean([&](const train::Record& r) { return reward(r, 0); }));
    add(rewards + "rejected", mean([&](const train::Record& r) { return reward(r, last(r)); }));
    add(rewards + "accuracies", mean([&](const train::Record& r) { return accuracy_of(r); }));
    add(rewards + "margins", mean([&](const train::Record& r) { return reward(r, 0) - reward(r, last(r)); }));
  }
  add("logps_" + stage + "/chosen", mean([](const train::Record& r) { return r.policy[0]; }));
  if (pairs)
    add("logps_" + stage + "/rejected", mean([](const train::Record& r) { return r.policy.back(); }));
  add("tokens_" + stage + "/chosen",
      mean([](const train::Record& r) { return static_cast<double>(r.tokens.front()); }));
  if (!pairs) return metrics;
  add("tokens_" + stage + "/rejected",
      mean([](const train::Record& r) { return static_cast<double>(r.tokens.back()); }));
  if (!loss::uses_reference(loss)) return metrics;
  add("drift_" + stage + "/chosen",
      mean([](const train::Record& r) { return r.policy[0] - r.reference[0]; }));
  add("drift_" + stage + "/rejected",
      mean([](const train::Record& r) { return r.policy.back() - r.reference.back(); }));
  add("kl_" + stage + "/per_token", divergence_of(records));
  return metrics;
}

std::vector<track::Distribution> distributions_of(std::span<const train::Record> records, double beta) {
  std::vector<track::Distribution> all;
  const auto add = [&](const char* name, const auto& value) {
    track::Distribution& distribution = all.emplace_back(track::Distribution{name, {}});
    for (const train::Record& record : records) distribution.values.push_back(value(record));
  };
  const auto reward = [beta](const train::Record& record, std::size_t i) {
    return beta * (record.policy[i] - record.reference[i]);
  };
  const auto last_reward = [&](const train::Record& r) { return reward(r, r.policy.size() - 1); };
  const bool pairs = !records.empty() && records.front().policy.size() > 1;
  add("eval_tokens/chosen", [](const train::Record& r) { return static_cast<double>(r.tokens.front()); });
  if (!pairs) return all;
  add("eval_tokens/rejected", [](const train::Record& r) { return static_cast<double>(r.tokens.back()); });
  add("eval_rewards/chosen", [&](const train::Record& r) { return reward(r, 0); });
  add("eval_rewards/rejected", last_reward);
  add("eval_rewards/margins", [&](const train::Record& r) { return reward(r, 0) - last_reward(r); });
  return all;
}

double value_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [known, value] : metrics)
    if (known == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

std::string to_json_line(const Metrics& metrics) {
  nlohmann::ordered_json line;
  for (const auto& [name, value] : metrics) line[name] = value;
  return line.dump();
}

std::optional<Metrics> parse_metrics(std::string_view line) {
  const auto values = nlohmann::ordered_json::parse(line.begin(), line.end(), nullptr, false);
  if (!values.is_object()) return std::nullopt;
  Metrics metrics;
  for (const auto& [name, value] : values.items())
    if (value.is_number()) metrics.emplace_back(name, value.get<double>());
  return metrics;
}

bool is_evaluation(const Metrics& metrics) { return !std::isnan(value_of(metrics, "loss/eval")); }

std::string lines_until(std::string_view lines, const RunState& run_state) {
  std::string kept;
  for (std::size_t start = 0; start < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', start), lines.size());
    const std::string_view line = lines.substr(start, end - start);
    start = end + 1;
    const auto metrics = parse_metrics(line);
    if (!metrics) continue;
    const std::int64_t last = is_evaluation(*metrics) ? run_state.evaluated : run_state.examples;
    if (!(value_of(*metrics, "counters/examples") > static_cast<double>(last))) kept.append(line) += '\n';
  }
  return kept;
}

}  // namespace dpo::run
