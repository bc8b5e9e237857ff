#include "commands/run_keys.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "commands/modern_keys.h"
#include "config/defaults.h"
#include "config/field.h"
#include "config/modern.h"
#include "data/chat_files.h"
#include "data/source.h"
#include "plan/architecture.h"
#include "plan/unused_keys.h"

namespace dpo::commands {
namespace {

using config::Resolved;

// Returns the context length of the model, or nullopt if its sizes are unknown here, which a plan will
// report.
std::optional<std::int64_t> context_of(const config::RunConfig& run) {
  try {
    return plan::find_architecture(run.model.name_or_path).shape.context;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void change(Resolved& resolved, const char* key, std::int64_t value, const std::string& reason) {
  if (resolved.values.defaults == config::Defaults::modern) {  // one note lists all values of defaults=modern
    config::set_default(resolved, key, config::to_node(value), config::kModernOfData);
    return;
  }
  config::set_default(resolved, key, config::to_node(value));
  resolved.notes.push_back(fmt::format("{}={} in place of the default: {}", key, value, reason));
}

void adapt_lengths(Resolved& resolved) {
  const config::RunConfig& run = resolved.values;
  const std::optional<std::int64_t> context = context_of(run);
  if (context && run.max_length > *context && !is_given(resolved, "max_length"))
    change(resolved, "max_length", *context, fmt::format("the model has {} positions", *context));
  if (run.max_prompt_length >= run.max_length && run.max_length > 1 &&
      !is_given(resolved, "max_prompt_length"))
    change(resolved, "max_prompt_length", run.max_length / 2, fmt::format("max_length={}", run.max_length));
}

void adapt_intervals(Resolved& resolved) {
  const config::RunConfig& run = resolved.values;
  if (run.eval_every && *run.eval_every < run.batch_size && !is_given(resolved, "eval_every"))
    change(resolved, "eval_every", run.batch_size, fmt::format("batch_size={}", run.batch_size));
}

// Samples as many texts as requested if the user set n_eval_model_samples.
void adapt_sampling(Resolved& resolved) {
  if (is_given(resolved, "n_eval_model_samples") && !is_given(resolved, "sample_during_eval"))
    config::set_default(resolved, "sample_during_eval", config::to_node(config::Sampling::whole),
                        "n_eval_model_samples is given");
}

plan::DataFacts facts_of(const config::RunConfig& run) {
  try {
    const std::vector<data::Source> sources = data::find_sources(run, data::Split::Train);
    return {std::ranges::any_of(sources, &data::Source::chat),
            std::ranges::any_of(sources, &data::Source::by_hash)};
  } catch (const UserError&) {
    return {};  // not on this machine, or unreadable, which is reported elsewhere
  }
}

}  // namespace

Resolved adapted(Resolved resolved) {
  resolved.notes.clear();
  data::check_chat_files(resolved.values);
  for (const std::string& note : data::namesake_notes(resolved.values)) resolved.notes.push_back(note);
  adapt_lengths(resolved);
  adapt_intervals(resolved);
  adapt_sampling(resolved);
  return resolved;
}

Resolved adapted_to_data(Resolved resolved, const plan::ExampleUnit& unit) {
  resolved.notes.clear();
  if (unit.in_epoch > 0 && unit.in_epoch < resolved.values.batch_size && !is_given(resolved, "batch_size"))
    change(
        resolved, "batch_size", unit.in_epoch,
        fmt::format("there {} only {}", unit.in_epoch == 1 ? "is" : "are", plural(unit.in_epoch, unit.name)));
  return resolved;
}

FittedRun fitted(const Resolved& asked, const std::function<void(const std::string& note)>& say) {
  FittedRun run{adapted(asked), {}};
  for (const std::string& note : run.resolved.notes) say(note);
  const std::optional<std::int64_t> context = context_of(run.resolved.values);
  run.data = count_data(with_whole_texts(run.resolved, context).values);
  if (!run.data.lengths) {
    if (const std::string note = config::modern_note(run.resolved); !note.empty()) say(note);
    return run;
  }
  run.resolved = with_keys_of_data(std::move(run.resolved), *run.data.lengths, context);
  const plan::ExampleUnit unit = plan::unit_of(run.resolved.values.loss, *run.data.lengths);
  run.resolved = adapted_to_data(std::move(run.resolved), unit);
  count_cuts(run.data, run.resolved.values);
  for (const std::string& note : run.resolved.notes) say(note);
  if (const std::string note = config::modern_note(run.resolved); !note.empty()) say(note);
  return run;
}

std::vector<std::string> unused_keys_notes(const Resolved& resolved) {
  const std::string note = plan::unused_keys_note(resolved, facts_of(resolved.values));
  return note.empty() ? std::vector<std::string>{} : std::vector{note};
}

}  // namespace dpo::commands
