#include "train/update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/splitmix64.h"
#include "config/losses.h"
#include "ops/upload.h"
#include "optim/clip.h"
#include "train/reference_cache.h"

namespace dpo::train {
namespace {

Microbatches microbatches_of(const TrainState& state, const ExampleBatch& batch) {
  return {batch,
          {.microbatches = state.microbatches, .has_balance_loss = state.pass.router_aux_loss_coef > 0},
          state.mesh,
          state.policy.model(),
          state.policy.store().device(0)};
}

// Returns the options of the pass over a microbatch for its gradients. Each microbatch has different dropout
// masks.
model::PassOptions training_pass(const TrainState& state, const Microbatches& parts, std::size_t microbatch) {
  model::PassOptions pass = state.pass;
  pass.router_aux_loss_coef *= parts.share();
  if (state.dropout == 0) return pass;
  std::uint64_t seed = splitmix64(state.seed + static_cast<std::uint64_t>(state.optimizer->updates()));
  seed = splitmix64(seed + static_cast<std::uint64_t>(state.mesh.data->rank()));
  pass.dropout = {state.dropout, splitmix64(seed + microbatch)};
  return pass;
}

// Reads the log-probabilities of a forest's responses on the host. Those that are on one GPU are copied
// together.
std::vector<loss::Score> read_scores(const data::Forest& forest, const at::Tensor& policy,
                                     const at::Tensor& reference) {
  if (policy.is_cpu() || policy.device() != reference.device())
    return scores_of(forest, to_host(policy), to_host(reference));
  const std::vector<double> both = to_host(at::cat({policy, reference}));
  const auto middle = both.begin() + policy.numel();
  return scores_of(forest, {both.begin(), middle}, {middle, both.end()});
}

// Returns placeholder scores, for losses whose gradients do not depend on the scores.
std::vector<loss::Score> unknown_scores(const data::Forest& forest) {
  const std::vector<double> zeros(static_cast<std::size_t>(forest.responses()));
  return scores_of(forest, zeros, zeros);
}

struct Scoring {
  bool training = false;      // with the dropout of the passes that compute gradients
  bool equal_models = false;  // the reference's scores are the policy's
};

// Returns the scores of all examples, in batch order, without losses.
std::vector<Record> score_all(const TrainState& state, Microbatches& parts, const ExampleBatch& batch,
                              Scoring scoring) {
  BatchRecords records(batch);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Microbatch& part = parts.at(i);
    const data::Forest& forest = part.forest;
    const model::PassOptions pass = scoring.training ? training_pass(state, parts, i) : state.pass;
    const at::Tensor policy =
        model::forward(state.policy.model(), state.policy.store(), part.packed, pass).log_probs;
    const at::Tensor reference = scoring.equal_models ? policy : state.reference->scores(part, batch);
    if (i + 1 < parts.size()) parts.at(i + 1);  // packed before the host waits for the scores
    records.add(forest, records_of(forest, read_scores(forest, policy, reference), {}, batch));
  }
  return records.gather(state.mesh);
}

// Computes the loss of a whole batch from its scores, for losses that compare examples with each other.
class WholeBatch {
 public:
  WholeBatch(const loss::Options& options, const std::vector<Record>& scored, const ExampleBatch& batch)
      : batch_(batch),
        forest_(unshared_forest(batch)),
        scores_(unshared_scores(scored)),
        evaluated_(loss::evaluate(options, scores_, comparisons_of(forest_, batch, options))) {}

  std::vector<Record> records() const { return records_of(forest_, scores_, evaluated_.losses, batch_); }
  std::vector<double> gradients_of(const data::Forest& part) const {
    return shared_gradients(part, forest_, evaluated_.gradients);
  }

 private:
  const ExampleBatch& batch_;
  data::Forest forest_;
  std::vector<loss::Score> scores_;
  loss::LossAndGradients evaluated_;
};

// Returns the batch with mismatched pairs: each example has the responses of the next example with another
// prompt, truncated to `max_length` tokens with its own prompt.
ExampleBatch mismatched(const ExampleBatch& batch, std::size_t max_length) {
  const std::size_t size = batch.examples.size();
  ExampleBatch others = batch;
  for (std::size_t i = 0; i < size; ++i) {
    const auto is_own = [&](std::size_t other) {
      return std::ranges::equal(batch.examples[other].prompt, batch.examples[i].prompt);
    };
    std::size_t other = (i + 1) % size;
    while (other != i && is_own(other)) other = (other + 1) % size;
    if (other == i) other = (i + 1) % size;  // a batch of one prompt
    data::Example& example = others.examples[i];
    example.responses = batch.examples[other].responses;
    example.unscored = batch.examples[other].unscored;
    const std::size_t taken = std::min(example.prompt.size(), max_length - 1);
    for (std::span<const data::Token>& response : example.responses)
      response = response.first(std::min(response.size(), max_length - taken));
  }
  return others;
}

// Estimates the KL divergence by the mean log-ratio of policy and reference over mismatched pairs, which
// takes another forward pass of both.
double estimate_kl(const TrainState& state, const ExampleBatch& batch, bool equal_models = false) {
  const ExampleBatch others = mismatched(batch, state.max_length);
  double sum = 0, count = 0;
  Microbatches parts = microbatches_of(state, others);
  for (const Record& record : score_all(state, parts, others, {.equal_models = equal_models}))
    for (std::size_t i = 0; i < record.policy.size(); ++i, ++count)
      sum += record.policy[i] - record.reference[i];
  return sum / count;
}

[[noreturn]] void fail_not_finite(const UpdateResult& result, std::int64_t update,
                                  const std::string& consequence) {
  std::vector<std::uint32_t> culprits, all;
  for (const Record& record : result.records) {
    all.push_back(record.example);
    if (!std::isfinite(record.loss)) culprits.push_back(record.example);
  }
  throw TrainingFailure(fmt::format(
      "update {}: {} is NaN or infinite; {}. Examples in the batch: {}. Try a lower lr, and look at these "
      "examples.",
      update + 1,
      culprits.empty() ? fmt::format("a gradient (their norm is {})", result.gradient_norm)
                       : fmt::format("the loss of example {}", fmt::join(culprits, ", ")),
      consequence, fmt::join(all, ", ")));
}

void require_finite(const UpdateResult& result, std::int64_t update) {
  if (!result.finite()) fail_not_finite(result, update, "the update was not applied");
}

// Where the gradients of an update are accumulated and reduced.
struct Gradients {
  model::GradientStore& store;
  std::function<double()> finish;  // called after the last pass; returns their norm
  std::function<void()> begin_last_pass = [] {};
  // Called with the losses before the backward pass, if the batch is one microbatch on one rank.
  Check on_scored = {};
};

// Runs the passes over a batch.
UpdateResult run_passes(TrainState& state, const ExampleBatch& batch, const Gradients& gradients) {
  UpdateResult result;
  Microbatches parts = microbatches_of(state, batch);
  const config::LossFacts facts = facts_of(state.loss.name);
  loss::Options options{state.loss, state.rewards.value()};
  if (facts.needs_kl) options.kl = estimate_kl(state, batch);
  // The examples are scored again below, so that only one microbatch's activations are in memory at a time.
  std::optional<WholeBatch> whole;
  if (facts.compares_batch) whole.emplace(options, score_all(state, parts, batch, {.training = true}), batch);
  const auto comparisons = static_cast<double>(count_comparisons(batch, options));
  BatchRecords records(batch);
  std::optional<shard::PendingSums> pending;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    if (is_last) gradients.begin_last_pass();
    const Microbatch& part = parts.at(i);
    const data::Forest& forest = part.forest;
    const model::PassOptions pass = training_pass(state, parts, i);
    const at::Tensor reference = state.reference->scores(part, batch);
    const auto evaluate = [&](const std::vector<loss::Score>& scores) {
      loss::LossAndGradients found =
          whole ? loss::LossAndGradients{{}, whole->gradients_of(forest)}
                : loss::evaluate(options, scores, comparisons_of(forest, batch, options));
      found.gradients.resize(static_cast<std::size_t>(forest.responses()));  // others have the rest
      for (double& gradient : found.gradients) gradient /= comparisons;      // the mean over the whole batch
      return found;
    };
    const auto upload = [&](const std::vector<double>& by_score) {
      return ops::upload(at::tensor(by_score, at::kFloat), part.packed.tokens.device());
    };
    std::optional<model::ConstantLossGradients> constant;
    if (facts.has_constant_gradients)
      constant.emplace(upload(evaluate(unknown_scores(forest)).gradients), gradients.store);
    model::SavedActivations saved;
    const auto output =
        model::forward(state.policy.model(), state.policy.store(), part.packed, pass, saved, constant);
    const std::vector<loss::Score> own = read_scores(forest, output.log_probs, reference);
    std::vector<loss::Score> scores = own;
    if (parts.has_divided(i) && !whole) exchange_scores(forest, scores, batch, state.mesh);
    const loss::LossAndGradients evaluated = evaluate(scores);
    records.add(forest, records_of(forest, own, evaluated.losses, batch));
    if (gradients.on_scored)
      gradients.on_scored({.records = whole ? whole->records() : records.gather(state.mesh)});
    result.tokens += forest.size();
    result.aux_loss += parts.share() * saved.balance.value();
    if (is_last)
      pending.emplace(records.start_gathering(
          state.mesh, std::array{static_cast<double>(result.tokens), result.aux_loss}));
    model::backward(state.policy.model(), state.policy.store(), part.packed, pass, saved,
                    upload(evaluated.gradients), gradients.store);
  }
  // Work that needs no gradients comes before their norm, which waits for the backward pass of a GPU. The
  // ranks' sums began before that pass, so reading them does not wait for it.
  const std::vector<double> sums = pending->get();
  result.records = whole ? whole->records() : records.gathered(sums);
  result.tokens = static_cast<std::int64_t>(sums[sums.size() - 2]) - parts.repeated_tokens();
  result.slowest_rank = parts.slowest_rank();
  result.aux_loss = sums.back();
  result.gradient_norm = gradients.finish();
  return result;
}

// Parameters of an optimizer step, the same for every block.
struct Step {
  std::int64_t number = 0;  // of updates so far
  double learning_rate = 0;
  std::uint64_t seed = 0;
};

UpdateResult update_at_once(TrainState& state, const ExampleBatch& batch, const Step& step,
                            const Check& check) {
  UpdateResult result = compute_gradients(state, batch);
  require_finite(result, step.number);
  if (check) check(result);
  const double clip =
      state.max_gradient_norm ? optim::clip_factor(result.gradient_norm, *state.max_gradient_norm) : 1;
  state.optimizer->step(state.policy.trained(), state.policy.gradients(), step.learning_rate, step.seed,
                        {clip, state.policy.copy()});
  return result;
}

// Updates every block as soon as the backward pass has its gradients.
UpdateResult update_by_block(TrainState& state, const ExampleBatch& batch, const Step& step,
                             const Check& check) {
  std::vector<at::Tensor> norms;
  const auto gradients =
      state.policy.gradients_by_block([&](std::size_t block, const model::BlockWeights& complete) {
        norms.push_back(optim::block_norm(complete.flat));
        state.optimizer->step_block(block, state.policy.trained(), complete, step.learning_rate, step.seed,
                                    {.copy = state.policy.copy()});
      });
  const auto finish = [&] {
    std::ranges::reverse(norms);  // in the order of blocks, as in optim::gradient_norm
    return optim::norm_of_all(norms);
  };
  const auto on_scored = [&](const UpdateResult& scored) {
    require_finite(scored, step.number);
    if (check) check(scored);
    state.optimizer->begin_step();
  };
  UpdateResult result =
      run_passes(state, batch, {.store = *gradients, .finish = finish, .on_scored = on_scored});
  if (!result.finite())
    fail_not_finite(result, step.number,
                    "without clipping (max_grad_norm=null) blocks are updated before that is known, so the "
                    "weights are corrupted; resume from the last checkpoint, if there is one");
  return result;
}

}  // namespace

bool UpdateResult::finite() const {
  return std::isfinite(gradient_norm) &&
         std::all_of(records.begin(), records.end(),
                     [](const Record& record) { return std::isfinite(record.loss); });
}

UpdateResult compute_gradients(TrainState& state, const ExampleBatch& batch) {
  state.policy.begin_gradients();
  return run_passes(state, batch,
                    {.store = state.policy.gradient_store(),
                     .finish = [&] { return state.policy.finish_gradients(); },
                     .begin_last_pass = [&] { state.policy.begin_last_pass(); }});
}

UpdateResult update(TrainState& state, const ExampleBatch& batch, const Check& check) {
  const std::int64_t number = state.optimizer->updates();
  const Step step{number, state.schedule.at(number), state.seed + static_cast<std::uint64_t>(number) * 65537};
  UpdateResult result = state.policy.keeps_gradients() ? update_at_once(state, batch, step, check)
                                                       : update_by_block(state, batch, step, check);
  state.policy.store().end_update();
  result.learning_rate = step.learning_rate;
  for (const Record& record : result.records)
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      state.rewards.add(state.loss.beta * (record.policy[i] - record.reference[i]));
  return result;
}

void require_equal_models(const UpdateResult& result, at::ScalarType dtype) {
  for (const Record& record : result.records)
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      if (std::abs(record.policy[i] - record.reference[i]) >
          rounding_of(record.policy[i], record.tokens[i], dtype))
        throw TrainingFailure(fmt::format(
            "policy and reference differ before the first update: example {} has log-probability {} under "
            "the policy and {} under the reference. They should be the same model; is model.archive the "
            "right one?",
            record.example, record.policy[i], record.reference[i]));
}

std::vector<Record> evaluate(const TrainState& state, const ExampleBatch& batch, bool equal_models) {
  loss::Options options{state.loss, state.rewards.value()};
  if (facts_of(state.loss.name).needs_kl) options.kl = estimate_kl(state, batch, equal_models);
  Microbatches parts = microbatches_of(state, batch);
  return WholeBatch(options, score_all(state, parts, batch, {.equal_models = equal_models}), batch).records();
}

}  // namespace dpo::train
