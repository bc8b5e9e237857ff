#include <fmt/format.h>

#include "base/divisors.h"
#include "plan/plan.h"

namespace dpo::plan {
namespace {

// One point of the search: the keys that it may set, with their values.
struct Choice {
  std::string trainer;
  std::optional<std::string> mixed;
  bool checkpointing;
  std::int64_t steps;
};

std::vector<Choice> choices(const Inputs& in) {
  std::vector<std::string> trainers = {"BasicTrainer"};
  if (in.machine.ranks() > 1) trainers = {"BasicTrainer", "FSDPTrainer", "TensorParallelTrainer"};
  std::vector<std::optional<std::string>> precisions = {in.run.model.fsdp_policy_mp};
  if (!in.run.model.fsdp_policy_mp && in.run.model.policy_dtype == "float32")
    precisions.push_back("bfloat16");
  std::vector<Choice> all;
  for (const std::string& trainer : trainers)
    for (const auto& mixed : precisions)
      for (const bool checkpointing : {false, true})
        for (const std::int64_t steps : divisors(in.run.batch_size))
          all.push_back({trainer, mixed, checkpointing, steps});
  return all;
}

Inputs with(const Inputs& in, const Choice& choice) {
  Inputs result = in;
  result.run.trainer = choice.trainer;
  result.run.model.fsdp_policy_mp = choice.mixed;
  result.run.activation_checkpointing = choice.checkpointing;
  result.run.gradient_accumulation_steps = choice.steps;
  return result;
}

std::vector<std::string> difference(const config::RunConfig& from, const Choice& to) {
  std::vector<std::string> words;
  if (from.trainer != to.trainer) words.push_back("trainer=" + to.trainer);
  if (from.model.fsdp_policy_mp != to.mixed) words.push_back("model.fsdp_policy_mp=" + *to.mixed);
  if (from.activation_checkpointing != to.checkpointing)
    words.push_back(fmt::format("activation_checkpointing={}", to.checkpointing));
  if (from.gradient_accumulation_steps != to.steps)
    words.push_back(fmt::format("gradient_accumulation_steps={}", to.steps));
  return words;
}

bool keeps_the_rule(const Plan& plan) { return plan.find("batch-per-gpu")->verdict == Verdict::ok; }

}  // namespace

std::optional<Fit> find_fastest(const Inputs& in) {
  std::optional<Fit> best;
  for (const Choice& choice : choices(in)) {
    Plan plan = assess(with(in, choice));
    if (!plan.good() || !keeps_the_rule(plan)) continue;
    std::vector<std::string> words = difference(in.run, choice);
    // Of equally fast ones, that which changes least.
    constexpr double kNoticeable = 0.999;
    const bool faster = !best || plan.timing.step < kNoticeable * best->plan.timing.step;
    const bool simpler = best && plan.timing.step * kNoticeable <= best->plan.timing.step &&
                         words.size() < best->overrides.size();
    if (faster || simpler) best = Fit{std::move(words), std::move(plan)};
  }
  return best;
}

}  // namespace dpo::plan
