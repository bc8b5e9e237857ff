#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "optim/clip.h"
#include "train/batch_records.h"
#include "train/microbatch.h"
#include "train/reference_cache.h"
#include "train/scoring.h"

namespace dpo::train {
namespace {

std::vector<Microbatch> split(const Trainee& t, const ExampleBatch& batch) {
  return divide_batch(batch, {t.microbatches, t.mesh.data->rank(), t.mesh.data->size()},
                      t.policy.model().config.shape, t.policy.store().device(0));
}

std::vector<loss::Score> score(const Trainee& t, const Microbatch& part, const ExampleBatch& batch) {
  const std::vector<double> reference = t.reference->scores(part, batch);
  const at::Tensor policy = model::forward(t.policy.model(), t.policy.store(), part.packed, t.pass).log_probs;
  return scores_of(part.forest, to_host(policy), reference);
}

// The scores of all examples, in the order of the batch, without losses.
std::vector<Record> score_all(const Trainee& t, const std::vector<Microbatch>& parts,
                              const ExampleBatch& batch) {
  BatchRecords records(batch);
  for (const Microbatch& part : parts)
    records.add(part.forest, records_of(part.forest, score(t, part, batch), {}, batch));
  return records.exchanged(t.mesh);
}

// The loss of a whole batch, whose scores are known: for losses that compare examples with each other.
class WholeBatch {
 public:
  WholeBatch(const loss::Options& options, const std::vector<Record>& scored, const ExampleBatch& batch)
      : batch_(batch),
        forest_(listed(batch)),
        scores_(listed_scores(scored)),
        terms_(loss::evaluate(options, scores_, comparisons_of(forest_, batch, options))) {}

  std::vector<Record> records() const { return records_of(forest_, scores_, terms_.losses, batch_); }
  std::vector<double> gradients_of(const data::Forest& part) const {
    return gradients_in(part, forest_, terms_.gradients);
  }

 private:
  const ExampleBatch& batch_;
  data::Forest forest_;
  std::vector<loss::Score> scores_;
  loss::Terms terms_;
};

// How far the policy is from the reference on responses that do not belong to their prompts: each example's
// prompt with the responses of the next that has another prompt, cut to the room that it leaves. The mean
// over the batch; KTO's point of zero.
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
    data::Example& example = mismatched.examples[i];
    example.responses = batch.examples[other].responses;
    const std::size_t taken = std::min(example.prompt.size(), t.max_length - 1);
    for (std::span<const data::Token>& response : example.responses)
      response = response.first(std::min(response.size(), t.max_length - taken));
  }
  double sum = 0, count = 0;
  for (const Record& record : score_all(t, split(t, mismatched), mismatched))
    for (std::size_t i = 0; i < record.policy.size(); ++i, ++count)
      sum += record.policy[i] - record.reference[i];
  return sum / count;
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
  // Such a batch is scored once more below, so that no more than one microbatch's activations are in memory.
  std::optional<WholeBatch> whole;
  if (loss::needs_whole_batch(options)) whole.emplace(options, score_all(t, parts, batch), batch);
  const double comparisons =
      static_cast<double>(batch.examples.size()) * (loss::is_unpaired(options) ? 2 : 1);
  BatchRecords records(batch);
  for (const Microbatch& part : parts) {
    const auto& [forest, packed] = part;
    const std::vector<double> reference = t.reference->scores(part, batch);
    model::Tape tape;
    const auto passed = model::forward(t.policy.model(), t.policy.store(), packed, t.pass, tape);
    const std::vector<loss::Score> scores = scores_of(forest, to_host(passed.log_probs), reference);
    loss::Terms terms = whole ? loss::Terms{{}, whole->gradients_of(forest)}
                              : loss::evaluate(options, scores, comparisons_of(forest, batch, options));
    for (double& gradient : terms.gradients) gradient /= comparisons;  // the mean over the whole batch
    model::backward(t.policy.model(), t.policy.store(), packed, t.pass, tape,
                    at::tensor(terms.gradients, at::kFloat).to(packed.tokens.device()),
                    t.policy.gradient_store());
    records.add(forest, records_of(forest, scores, terms.losses, batch));
    result.tokens += forest.size();
  }
  result.gradient_norm = t.policy.finish_gradients();
  result.records = whole ? whole->records() : records.exchanged(t.mesh);
  std::vector<double> tokens = {static_cast<double>(result.tokens)};
  shard::sum_over(*t.mesh.data, tokens, t.mesh.device);
  result.tokens = static_cast<std::int64_t>(tokens[0]);
  return result;
}

UpdateResult update(Trainee& t, const ExampleBatch& batch,
                    const std::function<void(const UpdateResult&)>& check) {
  UpdateResult result = compute_gradients(t, batch);
  const std::int64_t number = t.optimizer->updates();
  require_finite(result, number);
  if (check) check(result);
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

void require_equal_models(const UpdateResult& result, at::ScalarType type) {
  for (const Record& record : result.records)
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      if (std::abs(record.policy[i] - record.reference[i]) >
          rounding_of(record.policy[i], record.tokens[i], type))
        throw TrainingFailure(fmt::format(
            "policy and reference differ before the first update: example {} has log-probability {} under "
            "the one and {} under the other. They should be the same model; is model.archive another one?",
            record.example, record.policy[i], record.reference[i]));
}

std::vector<Record> evaluate(const Trainee& t, const ExampleBatch& batch) {
  const loss::Options options = loss_now(t, batch);
  return WholeBatch(options, score_all(t, split(t, batch), batch), batch).records();
}

}  // namespace dpo::train
