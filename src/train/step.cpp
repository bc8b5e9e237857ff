#include "train/step.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "optim/clip.h"
#include "train/microbatch.h"
#include "train/scoring.h"

namespace dpo::train {
namespace {

std::vector<Microbatch> split(const Trainee& t, const ExampleBatch& batch) {
  return divide_batch(batch, t.microbatches, t.policy.model().config.shape, t.policy.computed().device());
}

std::vector<loss::Score> score(const Trainee& t, const Microbatch& part, const ExampleBatch& batch) {
  const at::Tensor policy =
      model::forward(t.policy.model(), t.policy.computed(), part.packed, t.pass).log_probs;
  return scores_of(part.forest, to_host(policy), t.reference->scores(part, batch));
}

// Losses that compare examples with each other need the scores of all microbatches at once.
std::vector<loss::Terms> terms_of_whole_batch(const loss::Options& options,
                                              const std::vector<Microbatch>& parts,
                                              const std::vector<std::vector<loss::Score>>& scores,
                                              const ExampleBatch& batch) {
  std::vector<loss::Score> all_scores;
  std::vector<loss::Comparison> comparisons;
  std::vector<std::pair<std::size_t, std::size_t>> starts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    starts.emplace_back(all_scores.size(), comparisons.size());
    for (loss::Comparison comparison : comparisons_of(parts[i].forest, batch, options)) {
      for (std::int32_t& response : comparison.responses)
        response += static_cast<std::int32_t>(all_scores.size());
      comparisons.push_back(std::move(comparison));
    }
    all_scores.insert(all_scores.end(), scores[i].begin(), scores[i].end());
  }
  const loss::Terms all = loss::evaluate(options, all_scores, comparisons);
  starts.emplace_back(all_scores.size(), comparisons.size());
  std::vector<loss::Terms> terms;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto cut = [](const std::vector<double>& values, std::size_t from, std::size_t to) {
      return std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(from),
                                 values.begin() + static_cast<std::ptrdiff_t>(to));
    };
    terms.push_back({cut(all.losses, starts[i].second, starts[i + 1].second),
                     cut(all.gradients, starts[i].first, starts[i + 1].first)});
  }
  return terms;
}

std::vector<std::vector<loss::Score>> score_all(const Trainee& t, const std::vector<Microbatch>& parts,
                                                const ExampleBatch& batch) {
  std::vector<std::vector<loss::Score>> scores;
  for (const Microbatch& part : parts) scores.push_back(score(t, part, batch));
  return scores;
}

// How far the policy is from the reference on responses that do not belong to their prompts: each example's
// prompt with the responses of the next that has another prompt. The mean over the batch; KTO's point of
// zero.
double mismatched_drift(const Trainee& t, const ExampleBatch& batch) {
  const std::size_t size = batch.examples.size();
  ExampleBatch mismatched = batch;
  for (std::size_t i = 0; i < size; ++i) {
    const auto is_own = [&](std::size_t other) {
      return std::ranges::equal(batch.examples[other].prompt, batch.examples[i].prompt);
    };
    std::size_t other = (i + 1) % size;
    while (other != i && is_own(other)) other = (other + 1) % size;
    if (other == i) other = (i + 1) % size;  // a batch of one prompt
    mismatched.examples[i].responses = batch.examples[other].responses;
  }
  double sum = 0;
  std::size_t count = 0;
  for (const Microbatch& part : split(t, mismatched)) {
    const std::vector<loss::Score> scores = score(t, part, mismatched);
    for (const std::int32_t response : part.forest.compared) {
      const loss::Score& found = scores[static_cast<std::size_t>(response)];
      sum += found.policy - found.reference;
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

// The loss with what it needs to know of the batch and of the run so far.
loss::Options loss_now(const Trainee& t, const ExampleBatch& batch) {
  loss::Options options = t.loss;
  options.reward_shift = t.rewards.value();
  if (loss::is_unpaired(options)) options.kl = mismatched_drift(t, batch);
  return options;
}

void require_finite(const UpdateResult& result, std::int64_t update) {
  if (result.finite()) return;
  std::vector<std::uint32_t> culprits, all;
  for (const Record& record : result.records) {
    all.push_back(record.example);
    if (!std::isfinite(record.loss)) culprits.push_back(record.example);
  }
  throw TrainingFailure(fmt::format(
      "update {}: {} is not finite (gradient norm {}); nothing was changed by this update. Examples of the "
      "batch, "
      "by number: {}. A lower lr, or bfloat16 instead of float16, are the usual remedies.",
      update + 1,
      culprits.empty() ? "a gradient" : fmt::format("the loss of example {}", fmt::join(culprits, ", ")),
      result.gradient_norm, fmt::join(all, ", ")));
}

}  // namespace

bool UpdateResult::finite() const {
  return std::isfinite(gradient_norm) &&
         std::all_of(records.begin(), records.end(),
                     [](const Record& record) { return std::isfinite(record.loss); });
}

UpdateResult compute_gradients(Trainee& t, const ExampleBatch& batch) {
  UpdateResult result;
  t.policy.clear_gradients();
  const std::vector<Microbatch> parts = split(t, batch);
  const loss::Options options = loss_now(t, batch);
  const bool whole = loss::needs_whole_batch(options);
  // Scored once more below, so that no more than one microbatch's activations are in memory.
  const std::vector<loss::Terms> known =
      whole ? terms_of_whole_batch(options, parts, score_all(t, parts, batch), batch)
            : std::vector<loss::Terms>();
  const double comparisons =
      static_cast<double>(batch.examples.size()) * (loss::is_unpaired(options) ? 2 : 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [forest, packed] = parts[i];
    const std::vector<double> reference = t.reference->scores(parts[i], batch);
    model::Tape tape;
    const auto passed = model::forward(t.policy.model(), t.policy.computed(), packed, t.pass, tape);
    const std::vector<loss::Score> scores = scores_of(forest, to_host(passed.log_probs), reference);
    loss::Terms terms =
        whole ? known[i] : loss::evaluate(options, scores, comparisons_of(forest, batch, options));
    for (double& gradient : terms.gradients) gradient /= comparisons;  // the mean over the whole batch
    model::backward(t.policy.model(), t.policy.computed(), packed, t.pass, tape,
                    at::tensor(terms.gradients, at::kFloat).to(packed.tokens.device()), t.policy.gradients());
    const std::vector<Record> records = records_of(forest, scores, terms.losses, batch);
    result.records.insert(result.records.end(), records.begin(), records.end());
    result.tokens += forest.size();
  }
  result.gradient_norm = optim::gradient_norm(t.policy.gradients());
  return result;
}

UpdateResult update(Trainee& t, const ExampleBatch& batch) {
  UpdateResult result = compute_gradients(t, batch);
  const std::int64_t number = t.optimizer->updates();
  require_finite(result, number);
  optim::clip(t.policy.gradients(), result.gradient_norm, t.max_gradient_norm);
  result.learning_rate = t.schedule.at(number);
  t.optimizer->step(t.policy.stored(), t.policy.gradients(), result.learning_rate,
                    t.seed + static_cast<std::uint64_t>(number) * 65537);
  t.policy.refresh();
  for (const Record& record : result.records)
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      t.rewards.add(t.loss.beta * (record.policy[i] - record.reference[i]));
  return result;
}

std::vector<Record> evaluate(const Trainee& t, const ExampleBatch& batch) {
  const loss::Options options = loss_now(t, batch);
  const std::vector<Microbatch> parts = split(t, batch);
  const std::vector<std::vector<loss::Score>> scores = score_all(t, parts, batch);
  const std::vector<loss::Terms> terms = terms_of_whole_batch(options, parts, scores, batch);
  std::vector<Record> records;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::vector<Record> more = records_of(parts[i].forest, scores[i], terms[i].losses, batch);
    records.insert(records.end(), more.begin(), more.end());
  }
  return records;
}

}  // namespace dpo::train
