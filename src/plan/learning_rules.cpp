#include <array>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "loss/loss.h"
#include "plan/rule_facts.h"

namespace dpo::plan {
namespace {

// Where a loss is known to work.
struct UsualBeta {
  std::string_view loss;
  double least, most;
  const char* usual;
};

// Losses of means per token have larger ones than those of sums; SPPO's is the inverse of its eta.
constexpr std::array<UsualBeta, 3> kOtherBetas = {
    {{"simpo", 1, 20, "2 to 10"}, {"sigmoid_norm", 1, 20, "2 to 10"}, {"sppo_hard", 1e-4, 0.1, "0.001"}}};

UsualBeta usual_beta(const config::LossConfig& loss) {
  for (const UsualBeta& other : kOtherBetas)
    if (other.loss == loss.name) return other;
  return {loss.name, 0.01, 1, "0.1 to 0.5"};
}

}  // namespace

// Its point of zero comes from prompts with the responses of another example of the batch.
std::optional<Finding> mismatched(const Facts& f) {
  constexpr const char* id = "mismatched";
  if (!loss::is_unpaired({.name = f.run.loss.name})) return std::nullopt;
  Finding finding = ok(id, "every batch has another example to take mismatched responses from");
  const auto refuse = [&](const std::string& why) {
    finding.verdict = Verdict::error;
    finding.message = fmt::format(
        "loss={} measures the drift on prompts with the responses of another example of the "
        "batch, and with {} there is none",
        f.run.loss.name, why);
  };
  for (const auto& [key, size, used] :
       {std::tuple("batch_size", f.run.batch_size, true),
        std::tuple("eval_batch_size", f.run.eval_batch_size, f.run.eval_every.has_value())}) {
    if (size > 1 || !used) continue;
    refuse(fmt::format("{}=1", key));
    finding.remedies.push_back({{fmt::format("{}=2", key)}, "the smallest batch with another example"});
  }
  if (finding.verdict == Verdict::ok && f.run.eval_every && evaluation_of(f.c.in).batch == 1) {
    refuse("a single example to evaluate on");
    finding.remedies.push_back({{"eval_every=null"}, "no evaluation"});
  }
  return finding;
}

std::optional<Finding> lengths(const Facts& f) {
  constexpr const char* id = "lengths";
  const Lengths& known = f.c.in.lengths;
  const ExampleUnit unit = unit_of(f.run.loss, known);
  const std::string example = fmt::format("{:.0f} tokens in a mean {}", f.c.example.mean, unit.name);
  const std::string count = plural(unit.in_epoch, unit.name);
  if (known.known == Known::tokens) return ok(id, fmt::format("{}, {}, all counted", count, example));
  if (known.known == Known::sample)
    return ok(id, fmt::format("{} counted, {} by a sample of them", count, example));
  if (known.known == Known::bytes)
    return hint(
        id, fmt::format("{} counted, {} by four bytes a token, since the tokenizer is not on this machine",
                        count, example));
  if (f.c.in.unmeasured.empty())
    return ok(id, fmt::format("{}, by the statistics of {}", example, known.name));
  return hint(id,
              fmt::format("{} is not on this machine, and there are no statistics of it: {} and {} are those "
                          "of {}, so times are a guess, and no rule refuses the run for them; 'dpo data ... "
                          "--lengths FILE' where it is "
                          "measures it, plan.lengths=FILE plans with that",
                          fmt::join(f.c.in.unmeasured, ", "), example, count, known.name));
}

std::optional<Finding> warmup(const Facts& f) {
  constexpr const char* id = "warmup";
  if (f.plan.timing.updates == 0)
    return error(id, fmt::format("no update at all: a batch of {} is more than the {} examples of the data",
                                 f.run.batch_size, unit_of(f.run.loss, f.c.in.lengths).in_epoch));
  if (f.run.warmup_steps < f.plan.timing.updates)
    return ok(id, fmt::format("{} of {} updates", f.run.warmup_steps, f.plan.timing.updates));
  Finding finding =
      warning(id, fmt::format("warmup_steps={} is not less than the {} of the run: the learning rate "
                              "never reaches lr={}",
                              f.run.warmup_steps, plural(f.plan.timing.updates, "update"), f.run.lr));
  finding.remedies.push_back(
      {{fmt::format("warmup_steps={}", f.plan.timing.updates / 10)}, "a tenth of the run"});
  return finding;
}

std::optional<Finding> known_settings(const Facts& f) {
  constexpr const char* id = "known-settings";
  const bool preference = is_preference(f.run.loss);
  // ORPO is SFT with a preference beside it, and is trained as fast.
  const bool slow = preference && f.run.loss.name != "orpo";
  const double least = slow ? 1e-8 : 1e-7;
  const double most = slow ? 5e-6 : 5e-5;
  std::string far;
  const auto add = [&far](const std::string& text) { far += (far.empty() ? "" : "; ") + text; };
  if (f.run.lr > most || f.run.lr < least)
    add(fmt::format(
        "lr={} is outside {} to {}, where full fine-tuning with loss={} is known to work (the reference: "
        "5e-7)",
        f.run.lr, least, most, f.run.loss.name));
  const UsualBeta beta = usual_beta(f.run.loss);
  if (preference && (f.run.loss.beta < beta.least || f.run.loss.beta > beta.most))
    add(fmt::format("loss.beta={} is outside {} to {} (usual for loss={}: {})", f.run.loss.beta, beta.least,
                    beta.most, f.run.loss.name, beta.usual));
  if (f.run.batch_size < 8 || f.run.batch_size > 2048)
    add(fmt::format("batch_size={} is far from the usual 32 to 128", f.run.batch_size));
  return far.empty() ? ok(id, "learning rate and batch are in the usual range") : hint(id, far);
}

}  // namespace dpo::plan
