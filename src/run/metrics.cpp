#include "run/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include <nlohmann/json.hpp>

#include "config/losses.h"

namespace dpo::run {
namespace {

// Computes the mean loss over comparisons, which is what training minimizes. An unpaired loss has one
// comparison per response.
double mean_loss(std::span<const train::Record> records, bool unpaired) {
  double sum = 0, comparisons = 0;
  for (const train::Record& record : records) {
    const double count = unpaired ? static_cast<double>(record.policy.size()) : 1;
    sum += count * record.loss;
    comparisons += count;
  }
  return sum / comparisons;
}

constexpr std::uint64_t kPiece = 256 << 10;  // bytes of metrics.jsonl read at once

// One response of a record.
struct Scored {
  const train::Record* record;
  std::size_t response;
  double beta;

  double reward() const { return beta * drift(); }
  double policy() const { return record->policy[response]; }
  double drift() const { return record->policy[response] - record->reference[response]; }
  double tokens() const { return static_cast<double>(record->tokens[response]); }
};

double mean_of(const std::vector<Scored>& responses, double (Scored::*value)() const) {
  double sum = 0;
  for (const Scored& response : responses) sum += (response.*value)();
  return sum / static_cast<double>(responses.size());
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

// Returns the share of response pairs whose rewards are in the order of the responses.
double accuracy_of(const train::Record& record) {
  const auto drift = [&](std::size_t i) { return record.policy[i] - record.reference[i]; };
  int right = 0, all = 0;
  for (std::size_t i = 0; i < record.policy.size(); ++i)
    for (std::size_t j = i + 1; j < record.policy.size(); ++j, ++all) right += drift(i) > drift(j);
  return static_cast<double>(right) / all;
}

}  // namespace

Metrics metrics_of(std::span<const train::Record> records, const config::LossConfig& loss,
                   const std::string& stage) {
  const bool unpaired = facts_of(loss.name).examples == config::ExampleKind::Unpaired;
  std::vector<Scored> chosen, rejected;
  double accuracy = 0, margin = 0, pairs = 0;
  for (const train::Record& record : records) {
    const Scored first{&record, 0, loss.beta}, last{&record, record.policy.size() - 1, loss.beta};
    const bool is_pair = last.response > 0;
    if (is_pair || record.desirable) chosen.push_back(first);
    if (is_pair || !record.desirable) rejected.push_back(last);
    if (!is_pair) continue;
    accuracy += accuracy_of(record);
    margin += first.reward() - last.reward();
    ++pairs;
  }
  Metrics metrics;
  const auto add = [&](const std::string& group, const char* name, double value) {
    metrics.emplace_back(group + "_" + stage + "/" + name, value);
  };
  const auto add_means = [&](const std::string& group, double (Scored::*value)() const) {
    if (!chosen.empty()) add(group, "chosen", mean_of(chosen, value));
    if (!rejected.empty()) add(group, "rejected", mean_of(rejected, value));
  };
  const bool is_preference = unpaired || pairs > 0;
  metrics.emplace_back("loss/" + stage, mean_loss(records, unpaired));
  if (is_preference) add_means("rewards", &Scored::reward);
  if (pairs > 0) {
    add("rewards", "accuracies", accuracy / pairs);
    add("rewards", "margins", margin / pairs);
  }
  add_means("logps", &Scored::policy);
  add_means("tokens", &Scored::tokens);
  if (!is_preference || !uses_reference(loss)) return metrics;
  add_means("drift", &Scored::drift);
  add("kl", "per_token", divergence_of(records));
  return metrics;
}

std::vector<track::Distribution> distributions_of(std::span<const train::Record> records, double beta) {
  std::map<std::string, std::vector<double>> values;
  const auto add = [&](const std::string& name, const Scored& response) {
    if (beta != 0) values["eval_rewards/" + name].push_back(response.reward());  // SFT has no rewards
    values["eval_tokens/" + name].push_back(response.tokens());
  };
  for (const train::Record& record : records) {
    const Scored first{&record, 0, beta}, last{&record, record.policy.size() - 1, beta};
    const bool is_pair = last.response > 0;
    if (is_pair || record.desirable) add("chosen", first);
    if (is_pair || !record.desirable) add("rejected", last);
    if (is_pair) values["eval_rewards/margins"].push_back(first.reward() - last.reward());
  }
  std::vector<track::Distribution> all;
  for (auto& [name, numbers] : values) all.push_back({name, std::move(numbers)});
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

bool is_evaluation(const Metrics& metrics) { return !std::isnan(value_of(metrics, "loss/eval")); }

std::uint64_t bytes_until(std::istream& file, const RunState& run_state) {
  NamedNumbers numbers;
  const auto is_kept = [&](std::string_view line) {
    if (!read_numbers(line, numbers)) return false;
    const std::int64_t last = is_evaluation(numbers) ? run_state.evaluated : run_state.examples;
    return value_of(numbers, "counters/examples") <= static_cast<double>(last);
  };
  file.seekg(0, std::ios::end);
  auto end =
      static_cast<std::uint64_t>(std::max<std::streamoff>(0, file.tellg()));  // end of the undecided part
  std::string bytes;
  for (std::uint64_t size = kPiece; end > 0;) {
    const std::uint64_t begin = end - std::min(size, end);
    bytes.resize(end - begin);
    file.seekg(static_cast<std::streamoff>(begin));
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return 0;
    const std::size_t first = begin == 0 ? 0 : bytes.find('\n') + 1;  // start of the first whole line here
    for (std::size_t last = bytes.rfind('\n') + 1; last > first;) {
      const std::size_t start = last < 2 ? 0 : bytes.rfind('\n', last - 2) + 1;
      if (is_kept(std::string_view(bytes).substr(start, last - 1 - start))) return begin + last;
      last = start;
    }
    if (begin == 0) return 0;
    const bool has_line = first > 0 && first < bytes.size();
    end = has_line ? begin + first : end;
    size = has_line ? kPiece : 2 * size;
  }
  return 0;
}

}  // namespace dpo::run
