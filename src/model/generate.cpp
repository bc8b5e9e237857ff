#include "model/generate.h"

#include <algorithm>
#include <functional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "base/error.h"
#include "model/batch.h"
#include "model/kv_cache.h"
#include "model/pass.h"

namespace dpo::model {
namespace {

void check(std::span<const Prompt> prompts, const GenerateOptions& options, std::int64_t context) {
  check(options.sampling);
  if (options.max_new_tokens < 1 || options.samples < 1)
    throw UserError(fmt::format("{} new tokens, {} samples: both must be at least 1", options.max_new_tokens,
                                options.samples));
  for (const Prompt& prompt : prompts) {
    if (prompt.tokens.empty()) throw UserError("a prompt without tokens: expected at least one");
    if (static_cast<std::int64_t>(prompt.tokens.size()) >= context)
      throw UserError(
          fmt::format("a prompt of {} tokens leaves no room in the model's context of {}; shorten it",
                      prompt.tokens.size(), context));
  }
}

// Returns the prompts as trees without responses. The head reads the last token of each.
data::Forest forest_of(std::span<const Prompt> prompts) {
  data::Forest forest;
  forest.prompt_starts.push_back(0);
  for (const Prompt& prompt : prompts) {
    forest.tokens.insert(forest.tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
    for (std::size_t i = 0; i < prompt.tokens.size(); ++i)
      forest.positions.push_back(static_cast<std::int32_t>(i));
    const auto end = static_cast<std::int32_t>(forest.tokens.size());
    forest.prompt_starts.push_back(end);
    forest.rows.push_back(end - 1);
  }
  forest.response_starts.push_back(static_cast<std::int32_t>(forest.tokens.size()));
  forest.tree_responses.assign(prompts.size() + 1, 0);
  return forest;
}

// A sample that is not finished yet.
struct ActiveSample {
  std::size_t number;  // among all samples
  std::int64_t prompt;
  std::int64_t position;  // of its next token
  RandomStream random;
};

class Generation {
 public:
  Generation(const Model& model, Store& store, std::span<const Prompt> prompts,
             const GenerateOptions& options, const OnToken& on_token)
      : model_(model), store_(store), prompts_(prompts), options_(options), on_token_(on_token) {}

  std::vector<Generated> run();

 private:
  at::Tensor begin();
  at::Tensor next_logits(const at::Tensor& tokens);
  at::Tensor logits_with(const Batch& batch, const Attention& attention);
  at::Tensor choose(const at::Tensor& logits);
  void mark_prompts();
  bool accept(ActiveSample& sample, data::Token token);
  std::int64_t end_of_context(const Prompt& prompt) const;
  void drop_finished(const std::vector<std::int64_t>& kept, at::Tensor& tokens);

  const Model& model_;
  Store& store_;
  std::span<const Prompt> prompts_;
  const GenerateOptions& options_;
  const OnToken& on_token_;
  std::vector<ActiveSample> active_;
  std::optional<KvCache> cache_;
  at::Tensor seen_;  // bool [active samples, vocabulary]; undefined without a repetition penalty
  std::vector<Generated> results_;
};

// Returns float32 logits of the batch's rows.
at::Tensor Generation::logits_with(const Batch& batch, const Attention& attention) {
  return logits_of(model_, store_, batch, attention).to(at::kFloat);
}

// Computes the prompts, and returns the logits of the samples' first tokens.
at::Tensor Generation::begin() {
  const Batch batch = make_batch(forest_of(prompts_), model_.config.shape, store_.device(0));
  cache_.emplace(model_, batch.layout->prompts);
  const at::Tensor logits = logits_with(batch, std::bind_front(&KvCache::attend_prompts, &*cache_));
  std::vector<std::int64_t> prompt_of;
  for (std::size_t p = 0; p < prompts_.size(); ++p)
    for (std::int64_t s = 0; s < options_.samples; ++s) {
      active_.push_back({active_.size(), static_cast<std::int64_t>(p),
                         static_cast<std::int64_t>(prompts_[p].tokens.size()),
                         RandomStream(options_.seed, prompts_[p].number, static_cast<std::uint64_t>(s))});
      prompt_of.push_back(static_cast<std::int64_t>(p));
    }
  cache_->begin(prompt_of);
  results_.resize(active_.size());
  if (options_.sampling.repetition_penalty != 1) mark_prompts();
  return logits.index_select(0, at::tensor(prompt_of, at::kLong).to(logits.device()));
}

void Generation::mark_prompts() {
  seen_ = at::zeros({static_cast<std::int64_t>(active_.size()), model_.config.shape.vocabulary},
                    at::TensorOptions().dtype(at::kBool).device(store_.device(store_.blocks() - 1)));
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const std::span tokens = prompts_[static_cast<std::size_t>(active_[i].prompt)].tokens;
    const at::Tensor index = at::tensor(tokens, at::kInt).to(seen_.device(), at::kLong);
    seen_[static_cast<std::int64_t>(i)].index_fill_(0, index, true);
  }
}

at::Tensor Generation::next_logits(const at::Tensor& tokens) {
  std::vector<std::int64_t> positions;
  for (ActiveSample& sample : active_) positions.push_back(sample.position++);
  cache_->add_token();
  Batch batch;
  batch.tokens = tokens;
  batch.positions = at::tensor(positions, at::kLong);
  batch.lengths = batch.positions + 1;
  return logits_with(batch, std::bind_front(&KvCache::attend_token, &*cache_));
}

// Chooses the next token of every sample, int64 on the CPU.
at::Tensor Generation::choose(const at::Tensor& logits) {
  const SamplingOptions& sampling = options_.sampling;
  const at::Tensor left =
      seen_.defined() ? penalize_repetition(logits, seen_, sampling.repetition_penalty) : logits;
  if (sampling.greedy) return left.argmax(1).cpu();
  std::vector<double> numbers;
  for (ActiveSample& sample : active_) numbers.push_back(sample.random.next());
  return draw_tokens(filter_logits(left, sampling), numbers);
}

// Adds a token to a sample. Returns false if that finishes the sample.
bool Generation::accept(ActiveSample& sample, data::Token token) {
  Generated& result = results_[sample.number];
  result.tokens.push_back(token);
  if (std::ranges::find(options_.eos, token) != options_.eos.end()) {
    result.finish = Finish::eos;
    return false;
  }
  if (on_token_ && !on_token_(sample.number, token)) {
    result.finish = Finish::stopped;
    return false;
  }
  return static_cast<std::int64_t>(result.tokens.size()) < options_.max_new_tokens &&
         sample.position + 1 < end_of_context(prompts_[static_cast<std::size_t>(sample.prompt)]);
}

// Returns the context that a prompt's samples may fill. With longrope a prompt's keys change when the text
// outgrows the original context, so generation ends there.
std::int64_t Generation::end_of_context(const Prompt& prompt) const {
  const Rotary& rotary = model_.config.settings.rotary;
  const bool is_short = static_cast<std::int64_t>(prompt.tokens.size()) <= rotary.original_context;
  const std::int64_t context = model_.config.shape.context;
  return rotary.scaling == Rotary::Scaling::longrope && is_short ? std::min(context, rotary.original_context)
                                                                 : context;
}

void Generation::drop_finished(const std::vector<std::int64_t>& kept, at::Tensor& tokens) {
  if (kept.size() == active_.size()) return;
  std::vector<ActiveSample> left;
  for (const std::int64_t i : kept) left.push_back(std::move(active_[static_cast<std::size_t>(i)]));
  active_ = std::move(left);
  if (kept.empty()) return;
  const at::Tensor index = at::tensor(kept, at::kLong);
  tokens = tokens.index_select(0, index);
  if (seen_.defined()) seen_ = seen_.index_select(0, index.to(seen_.device()));
  cache_->keep(kept);
}

std::vector<Generated> Generation::run() {
  at::Tensor logits = begin();
  for (;;) {
    at::Tensor tokens = choose(logits).contiguous();
    options_.broadcast(tokens);
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < active_.size(); ++i)
      if (accept(active_[i], static_cast<data::Token>(tokens.const_data_ptr<std::int64_t>()[i])))
        kept.push_back(static_cast<std::int64_t>(i));
    drop_finished(kept, tokens);
    if (active_.empty()) return std::move(results_);
    if (seen_.defined()) seen_.scatter_(1, tokens.to(seen_.device()).unsqueeze(1), true);
    logits = next_logits(tokens);
  }
}

}  // namespace

std::vector<Generated> generate(const Model& model, Store& store, std::span<const Prompt> prompts,
                                const GenerateOptions& options, const OnToken& on_token) {
  check(prompts, options, model.config.shape.context);
  if (prompts.empty()) return {};
  const at::NoGradGuard no_grad;
  std::vector<Generated> results = Generation(model, store, prompts, options, on_token).run();
  store.end_pass();
  return results;
}

std::vector<Generated> generate(const Model& model, const Weights& weights, std::span<const Prompt> prompts,
                                const GenerateOptions& options, const OnToken& on_token) {
  ResidentStore store(weights);
  return generate(model, store, prompts, options, on_token);
}

}  // namespace dpo::model
