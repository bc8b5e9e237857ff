#include <algorithm>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "config/losses.h"
#include "plan/rules.h"

namespace dpo::plan {
namespace {

// Describes a source's losses: "pairs.jsonl: of 1,000 sampled examples 790 lose turns of the conversation, 3
// have a cut response".
std::string losses_text(const CutExamples& source, LengthBasis basis) {
  std::vector<std::string> losses;
  const auto add = [&](std::int64_t count, const char* one, const char* many) {
    if (count > 0) losses.push_back(fmt::format("{} {}", with_commas(count), count == 1 ? one : many));
  };
  add(source.turns, "loses turns of the conversation", "lose turns of the conversation");
  add(source.prompts, "has a cut prompt", "have a cut prompt");
  add(source.responses, "has a cut response", "have a cut response");
  return fmt::format("{}: of {}{} {} {}", source.source, with_commas(source.examples),
                     basis == LengthBasis::tokens ? "" : " sampled",
                     source.examples == 1 ? "example" : "examples", fmt::join(losses, ", "));
}

}  // namespace

std::optional<Finding> prompt_room(const Facts& f) {
  constexpr const char* id = "prompt-room";
  if (f.run.max_prompt_length < f.run.max_length)
    return ok(id, fmt::format("max_length={}; in longer examples the prompt is cut to {}", f.run.max_length,
                              f.run.max_prompt_length));
  Finding finding =
      error(id, fmt::format("max_prompt_length={} leaves no room for a response within max_length={}",
                            f.run.max_prompt_length, f.run.max_length));
  const std::int64_t half = f.run.max_length / 2;
  if (half > 0)
    finding.remedies.push_back({{fmt::format("max_prompt_length={}", half)}, "half for the prompt"});
  return finding;
}

std::optional<Finding> context(const Facts& f) {
  constexpr const char* id = "context";
  const std::int64_t context = f.w.in.shape.context;
  if (f.run.max_length <= context)
    return ok(id, fmt::format("max_length={} fits the model's context of {}", f.run.max_length, context));
  Finding finding =
      error(id, fmt::format("max_length={} exceeds the model's context of {} tokens (its position limit or "
                            "attention window)",
                            f.run.max_length, context));
  std::vector<std::string> overrides = {fmt::format("max_length={}", context)};
  if (f.run.max_prompt_length >= context)
    overrides.push_back(fmt::format("max_prompt_length={}", context / 2));
  finding.remedies.push_back({overrides, "the model's whole context"});
  return finding;
}

std::optional<Finding> loss_scale(const Facts& f) {
  constexpr const char* id = "float16";
  const config::ModelConfig& model = f.run.model;
  if (config::computed_dtype(f.run) != config::Dtype::float16 && model.policy_dtype != config::Dtype::float16)
    return std::nullopt;
  return error(
      id,
      "training in float16 needs loss scaling, which dpo does not do; use bfloat16, which takes the same "
      "memory and needs no scaling (model.reference_dtype may be float16)");
}

std::optional<Finding> adapter(const Facts& f) {
  constexpr const char* id = "adapter";
  if (!f.w.in.adapter) return std::nullopt;
  const std::int64_t trained = f.w.in.adapter->count(), all = f.w.in.table->count();
  if (!f.run.model.reference_dtype)
    return ok(id, fmt::format("{} parameters are trained, {:.2g} % of the model's {}", short_count(trained),
                              100 * to_double(trained) / to_double(all), short_count(all)));
  Finding finding = error(id,
                          "with an adapter the reference is computed with the policy's own weights, so "
                          "model.reference_dtype must be null");
  finding.remedies.push_back({{"model.reference_dtype=null"}, "the dtype that the policy computes in"});
  return finding;
}

std::optional<Finding> base_dtype(const Facts& f) {
  constexpr const char* id = "base-dtype";
  const auto& stored = f.w.in.quantization;
  if (stored && !f.w.in.adapter)
    return warning(
        id, fmt::format("the weights are quantized by bitsandbytes ({}): without an adapter all of them "
                        "are trained and saved as {}, starting from the quantized values. Use adapter=lora, "
                        "which keeps them quantized, or the original model",
                        name_of(stored->dtype), name_of(f.run.model.policy_dtype)));
  if (!f.run.adapter.base_dtype) return std::nullopt;
  return ok(id, fmt::format("frozen matrices in {}{}: {:.3g} bytes per parameter of the model",
                            name_of(*f.run.adapter.base_dtype),
                            stored ? ", as bitsandbytes quantized them" : "", bytes_per_parameter(f.w)));
}

std::optional<Finding> reference_model(const Facts& f) {
  constexpr const char* id = "reference";
  const bool needs = uses_reference(f.run.loss);
  if (needs && f.run.reference == config::ReferenceScoring::cached && !can_cache(f.run.loss)) {
    Finding finding =
        error(id, fmt::format("reference=cached does not work with loss={}, which also scores prompts with "
                              "responses of other examples: those differ from batch to batch",
                              name_of(f.run.loss.name)));
    finding.remedies.push_back({{"reference=live"}, "the reference model stays in memory"});
    return finding;
  }
  const std::string who = needs ? "policy and reference start" : "the policy starts";
  if (f.w.in.host.archive_exists == false)
    return warning(
        id, fmt::format("model.archive={} not found on this machine; {} from it", *f.run.model.archive, who));
  if (!is_preference(f.run.loss)) return ok(id, "SFT needs no reference");
  if (!needs) return ok(id, "reference-free loss");
  const HostInfo& host = f.w.in.host;
  const std::string start = fmt::format("policy and reference start from {}",
                                        f.run.model.archive.value_or(f.run.model.name_or_path));
  if (f.run.model.archive || host.resumes) return ok(id, start);
  if (host.has_chat_template == true) return ok(id, start + ", whose tokenizer has a chat template");
  return warning(id,
                 fmt::format("no model.archive: {} itself{}. Fine-tune a base model on such data first "
                             "(loss=sft, then model.archive=RUN/LATEST)",
                             start, host.has_chat_template ? ", whose tokenizer has no chat template" : ""));
}

// KTO estimates how far the policy has moved by scoring each prompt with the response of another example.
std::optional<Finding> mismatched(const Facts& f) {
  constexpr const char* id = "mismatched";
  if (!facts_of(f.run.loss.name).needs_kl) return std::nullopt;
  Finding finding = ok(id, "every batch has another example to take mismatched responses from");
  const auto refuse = [&](const std::string& why, Remedy remedy) {
    finding.verdict = Verdict::error;
    finding.message = fmt::format(
        "loss={} also scores each prompt with the response of another example of its batch; with {} there "
        "is none",
        name_of(f.run.loss.name), why);
    finding.remedies = {std::move(remedy)};
  };
  std::vector<std::string> alone, larger;
  for (const auto& [key, size, used] :
       {std::tuple("batch_size", f.run.batch_size, true),
        std::tuple("eval_batch_size", f.run.eval_batch_size, f.run.eval_every.has_value())}) {
    if (size > 1 || !used) continue;
    alone.push_back(fmt::format("{}=1", key));
    larger.push_back(fmt::format("{}=2", key));
  }
  if (!alone.empty())
    refuse(fmt::format("{}", fmt::join(alone, " and ")), {larger, "the smallest batch with another example"});
  else if (f.run.eval_every && evaluation_of(f.w.in).examples == 1)
    refuse("a single evaluation example", {{"eval_every=null"}, "no evaluation"});
  else if (f.run.eval_every && evaluation_of(f.w.in).smallest_batch() == 1)
    refuse("an evaluation batch of one example", {{"eval_batch_size=3"}, "no batch has only one example"});
  return finding;
}

// The KTO paper (section 4.2) advises weights with which good responses count 1 to 4/3 times as much as bad
// ones.
std::optional<Finding> label_balance(const Facts& f) {
  constexpr const char* id = "labels";
  constexpr double kLeast = 1, kMost = 4.0 / 3, kMiddle = 1.15;
  const Lengths& known = f.w.in.lengths;
  const bool weighs_labels = facts_of(f.run.loss.name).examples == config::ExampleKind::Unpaired;
  if (!weighs_labels || known.train_labels == 0) return std::nullopt;
  const double good = to_double(known.train_pairs + known.train_desirable);
  const double bad = to_double(known.train_pairs + known.train_labels - known.train_desirable);
  const std::string counts =
      fmt::format("{:.0f} good and {:.0f} bad response{}", good, bad, bad == 1 ? "" : "s");
  if (good == 0 || bad == 0)
    return warning(id, fmt::format("{}: loss={} learns from both{}", counts, name_of(f.run.loss.name),
                                   bad == 0 ? "; loss=sft imitates good ones" : ""));
  const double good_weight = f.run.loss.desirable_weight, bad_weight = f.run.loss.undesirable_weight;
  const double ratio = good_weight * good / (bad_weight * bad);
  if (ratio >= kLeast && ratio <= kMost)
    return ok(id, fmt::format("{}, weighted {:.3g} to 1", counts, ratio));
  Finding finding = warning(
      id, fmt::format("{}, weighted {:.3g} to 1 by loss.desirable_weight={} and loss.undesirable_weight={}; "
                      "the authors of KTO advise 1 to 1.33",
                      counts, ratio, good_weight, bad_weight));
  finding.remedies.push_back(
      {{ratio > kMost ? fmt::format("loss.undesirable_weight={:.3g}", good_weight * good / bad / kMiddle)
                      : fmt::format("loss.desirable_weight={:.3g}", bad_weight * bad / good * kMiddle)},
       "balances them"});
  return finding;
}

std::optional<Finding> lengths(const Facts& f) {
  constexpr const char* id = "lengths";
  const Lengths& known = f.w.in.lengths;
  const ExampleUnit unit = unit_of(f.run.loss, known);
  const std::string tokens = fmt::format("{:.0f} tokens per {} on average", f.w.example.mean, unit.name);
  const std::string count = plural(unit.in_epoch, unit.name);
  if (known.basis == LengthBasis::tokens) return ok(id, fmt::format("{}, {}, all counted", count, tokens));
  if (known.basis == LengthBasis::sample)
    return ok(id, fmt::format("{} counted, {} in a sample", count, tokens));
  if (known.basis == LengthBasis::bytes)
    return hint(
        id, fmt::format("{} counted, {} estimated at four bytes per token: no tokenizer was found on this "
                        "machine",
                        count, tokens));
  if (f.w.in.unmeasured.empty())
    return ok(id, fmt::format("{}, from the statistics of {}", tokens, known.name));
  return hint(
      id,
      fmt::format("{} is not on this machine and has no statistics: planned with those of {} ({}, {}), so "
                  "times are a guess, and errors that depend on them are warnings; run 'dpo data ... "
                  "--lengths FILE' where the data is, then plan with plan.lengths=FILE",
                  fmt::join(f.w.in.unmeasured, ", "), known.name, count, tokens));
}

std::optional<Finding> truncation(const Facts& f) {
  constexpr const char* id = "truncation";
  constexpr double kMany = 0.1;  // of the examples of a source
  const Cuts& cuts = f.w.in.lengths.cuts;
  if (cuts.sources.empty() || cuts.max_length != f.run.max_length ||
      cuts.max_prompt_length != f.run.max_prompt_length)
    return std::nullopt;
  std::vector<std::string> found;
  bool is_much = false;
  for (const CutExamples& source : cuts.sources) {
    const std::int64_t most = std::max({source.prompts, source.responses, source.turns});
    is_much |= to_double(most) > kMany * to_double(source.examples);
    if (most > 0) found.push_back(losses_text(source, f.w.in.lengths.basis));
  }
  if (found.empty()) return ok(id, fmt::format("max_length={} cuts no example", f.run.max_length));
  const std::string losses = fmt::format("{}", fmt::join(found, "; "));
  if (!is_much) return ok(id, losses);
  const std::string advice =
      f.run.max_length < f.w.in.shape.context
          ? fmt::format("try a larger max_length (the model's context is {})", f.w.in.shape.context)
          : "max_length is the model's whole context";
  return warning(id, fmt::format("{}. The model does not see what is cut, with max_length={} and "
                                 "max_prompt_length={}; {}. 'dpo data' shows the lengths",
                                 losses, f.run.max_length, f.run.max_prompt_length, advice));
}

std::optional<Finding> full_batch(const Facts& f) {
  constexpr const char* id = kFullBatch;
  if (f.plan.timing.updates > 0) return std::nullopt;
  const ExampleUnit unit = unit_of(f.run.loss, f.w.in.lengths);
  if (unit.in_epoch == 0)
    return error(
        id, fmt::format("the data has no {} for training: all rows were dropped; 'dpo data' with the same "
                        "arguments shows why",
                        unit.name));
  Finding finding =
      error(id, fmt::format("batch_size={} is more than the data's {}, so there would be no update",
                            f.run.batch_size, plural(unit.in_epoch, unit.name)));
  const std::int64_t divisor = f.run.gradient_accumulation_steps * f.w.mesh.data_ranks();
  if (const std::int64_t size = nearest_multiples(unit.in_epoch, divisor).below; size > 0)
    finding.remedies.push_back({{fmt::format("batch_size={}", size)}, "the largest that the data fills"});
  return finding;
}

std::optional<Finding> warmup(const Facts& f) {
  constexpr const char* id = "warmup";
  if (f.plan.timing.updates == 0) return std::nullopt;  // full_batch reports it
  if (f.run.warmup_steps < f.plan.timing.updates)
    return ok(id, fmt::format("{} of {}", f.run.warmup_steps, plural(f.plan.timing.updates, "update")));
  Finding finding =
      warning(id, fmt::format("warmup_steps={} is not less than the run's {}: the learning rate never "
                              "reaches lr={}",
                              f.run.warmup_steps, plural(f.plan.timing.updates, "update"), f.run.lr));
  const std::int64_t tenth = f.plan.timing.updates / 10;
  finding.remedies.push_back(
      {{fmt::format("warmup_steps={}", tenth)}, tenth == 0 ? "no warm-up" : "a tenth of the run"});
  return finding;
}

std::optional<Finding> experts(const Facts& f) {
  constexpr const char* id = "experts";
  const model::ModelShape& s = f.w.in.shape;
  const std::optional<double>& coefficient = f.run.model.router_aux_loss_coef;
  if (s.experts == 0) {
    if (!coefficient) return std::nullopt;
    return error(
        id, fmt::format("model.router_aux_loss_coef={} is for mixtures of experts, but {} has no experts; "
                        "leave it out",
                        *coefficient, f.run.model.name_or_path));
  }
  return ok(id, fmt::format("each token goes to {} of {} experts, {}", s.experts_per_token, s.experts,
                            coefficient ? fmt::format("balance loss times {}", *coefficient)
                                        : "without a balance loss"));
}

std::optional<Finding> known_settings(const Facts& f) {
  constexpr const char* id = "known-settings";
  const config::LossFacts loss = facts_of(f.run.loss.name);
  const bool small_steps = !loss.takes_rates_of_sft;
  // Learning rates of LoRA are ten to a hundred times as large.
  const bool lora = f.w.in.adapter != nullptr;
  const double least = (small_steps ? 1e-8 : 1e-7) * (lora ? 100 : 1);
  const double most = (small_steps ? 5e-6 : 5e-5) * (lora ? 20 : 1);
  std::string far;
  const auto add = [&far](const std::string& text) { far += (far.empty() ? "" : "; ") + text; };
  if (f.run.lr > most || f.run.lr < least)
    add(fmt::format("lr={} is outside {:g} to {:g}, where {} with loss={} is known to work ({})", f.run.lr,
                    least, most, lora ? "LoRA" : "full fine-tuning", name_of(f.run.loss.name),
                    !lora         ? "default: 5e-7"
                    : small_steps ? "usual: 5e-6 to 5e-5"
                                  : "usual: 1e-4 to 2e-4"));
  const config::UsualBeta& beta = loss.beta;
  if (loss.is_preference() && (f.run.loss.beta < beta.least || f.run.loss.beta > beta.most))
    add(fmt::format("loss.beta={} is outside {} to {} (usual for loss={}: {})", f.run.loss.beta, beta.least,
                    beta.most, loss.name, beta.text));
  if (f.run.batch_size < 8 || f.run.batch_size > 2048)
    add(fmt::format("batch_size={} is {} (usual: 32 to 128)", f.run.batch_size,
                    f.run.batch_size < 8 ? "small" : "large"));
  if (far.empty()) return ok(id, "no unusual learning rate, beta or batch size");
  // SGD, without division by the size of gradients, may need such a rate.
  constexpr double kFarTooLarge = 1000;
  const bool diverges = f.run.lr > kFarTooLarge * most && f.run.optimizer != config::Optimizer::SGD;
  return diverges ? warning(id, far) : hint(id, far);
}

}  // namespace dpo::plan
