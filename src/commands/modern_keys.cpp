#include "commands/modern_keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "config/defaults.h"
#include "config/field.h"
#include "config/modern.h"
#include "config/schema.h"
#include "plan/plan.h"

namespace dpo::commands {
namespace {

using config::Resolved;

void set(Resolved& resolved, const char* key, std::int64_t value) {
  if (!is_given(resolved, key)) set_default(resolved, key, config::to_node(value), config::kModernOfData);
}

std::int64_t rounded_up(double value, std::int64_t unit) {
  return (static_cast<std::int64_t>(std::ceil(value)) + unit - 1) / unit * unit;
}

// Limits the length of texts, because memory grows with it and few data sets have many longer ones.
std::int64_t longest_text(std::optional<std::int64_t> context) {
  constexpr std::int64_t kMost = 4096;
  return std::min(context.value_or(kMost), kMost);
}

// Sets the lengths to slightly more tokens than the longest texts have.
void set_lengths(Resolved& resolved, const plan::Lengths& lengths, std::optional<std::int64_t> context) {
  constexpr std::int64_t kUnit = 64;
  constexpr double kUnseen = 1.1;  // margin for texts outside the sample
  const double margin = lengths.basis == plan::LengthBasis::tokens ? 1 : kUnseen;
  const std::int64_t most = longest_text(context);
  const std::int64_t prompt = rounded_up(lengths.longest_prompt * margin, kUnit),
                     response = rounded_up(lengths.longest_response * margin, kUnit);
  set(resolved, "max_length", std::min(std::max(prompt + response, kUnit), most));
  const std::int64_t whole = resolved.values.max_length;  // the user's, if given
  set(resolved, "max_prompt_length", std::max(whole / 2, std::min(prompt, whole - response)));
}

// Returns a power of two from 8 to 64 with which the examples give at least about a hundred updates, or 8.
std::int64_t batch_for(std::int64_t examples) {
  constexpr std::int64_t kLeast = 8, kMost = 64, kUpdates = 100;
  const auto wanted = static_cast<std::uint64_t>(std::clamp(examples / kUpdates, kLeast, kMost));
  return static_cast<std::int64_t>(std::bit_floor(wanted));
}

std::string key_of(const std::string& change) { return change.substr(0, change.find('=')); }

}  // namespace

Resolved with_whole_texts(Resolved resolved, std::optional<std::int64_t> context) {
  if (resolved.values.defaults != config::Defaults::modern) return resolved;
  set(resolved, "max_length", longest_text(context));
  set(resolved, "max_prompt_length", resolved.values.max_length);
  return resolved;
}

Resolved with_keys_of_data(Resolved resolved, const plan::Lengths& lengths,
                           std::optional<std::int64_t> context) {
  constexpr std::int64_t kEvaluations = 8, kWarmUp = 10;
  if (resolved.values.defaults != config::Defaults::modern) return resolved;
  set_lengths(resolved, lengths, context);
  const std::int64_t in_epoch = plan::unit_of(resolved.values.loss, lengths).in_epoch;
  if (in_epoch == 0) return resolved;
  const std::int64_t epochs = resolved.values.n_epochs.value_or(1),
                     examples = resolved.values.n_examples.value_or(epochs * in_epoch);
  set(resolved, "batch_size", std::min(batch_for(examples), in_epoch));
  const std::int64_t batch = resolved.values.batch_size,
                     updates = std::max<std::int64_t>(examples / batch, 1);
  set(resolved, "warmup_steps", updates / kWarmUp);
  set(resolved, "eval_every", (updates + kEvaluations - 1) / kEvaluations * batch);
  return resolved;
}

Resolved with_keys_of_memory(Resolved resolved, plan::Inputs& in) {
  resolved.notes.clear();
  if (resolved.values.defaults != config::Defaults::modern || plan::assess(in).fits()) return resolved;
  const std::optional<plan::Fit> fit = plan::find_fastest(in);
  if (!fit || !fit->costs.empty()) return resolved;  // the plan reports what is missing
  // The ranks are already started, so the way in which they share the work cannot change.
  constexpr std::array kMayChange = {"gradient_accumulation_steps", "activation_checkpointing", "reference"};
  const bool may_change = std::ranges::all_of(fit->overrides, [&](const std::string& change) {
    return std::ranges::find(kMayChange, key_of(change)) != kMayChange.end() &&
           !is_given(resolved, key_of(change));
  });
  if (!may_change || fit->overrides.empty()) return resolved;
  in.run = config::with_overrides(in.run, fit->overrides);
  for (const std::string& change : fit->overrides) {
    const config::Field& field = *config::find_field(key_of(change));
    set_default(resolved, field.key, field.write(in.run), "defaults=modern, for the memory");
  }
  resolved.notes.push_back(fmt::format("{}: so that the run fits in memory", fmt::join(fit->overrides, " ")));
  return resolved;
}

}  // namespace dpo::commands
