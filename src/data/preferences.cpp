#include "data/preferences.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "config/text.h"

namespace dpo::data {

Preferences preferences_of(const PromptText& prompt) {
  return {prompt.pairs, prompt.rankings.size(), prompt.labels, prompt.sft_target, prompt.responses.size()};
}

Preferences preferences_of(const TokenFile& file, std::uint32_t prompt) {
  return {file.pairs(prompt), file.rankings(prompt), file.labels(prompt), file.sft_target(prompt),
          file.responses(prompt)};
}

std::uint32_t count_examples(const Preferences& prompt, ExampleKind kind) {
  const auto is_bad_target = [&](const Label& label) {
    return label.response == prompt.target && !label.desirable;
  };
  switch (kind) {
    case ExampleKind::Target: return std::ranges::none_of(prompt.labels, is_bad_target) ? 1 : 0;
    case ExampleKind::Ranking: return static_cast<std::uint32_t>(prompt.rankings);
    case ExampleKind::Pair: return static_cast<std::uint32_t>(prompt.pairs.size());
    case ExampleKind::Unpaired: break;
  }
  return static_cast<std::uint32_t>(prompt.pairs.size() + prompt.labels.size());
}

std::vector<std::uint32_t> responses_of(const PromptText& prompt, ExampleKind kind, std::uint32_t number) {
  if (kind == ExampleKind::Target) return {prompt.sft_target};
  if (kind == ExampleKind::Ranking) return prompt.rankings[number].responses;
  if (number >= prompt.pairs.size()) return {prompt.labels[number - prompt.pairs.size()].response};
  return {prompt.pairs[number].chosen, prompt.pairs[number].rejected};
}

void DataFormatCheck::add(const Preferences& prompt) {
  has_example_ |= count_examples(prompt, kind_) > 0;
  has_labels_ |= !prompt.labels.empty();
  has_lists_ |= prompt.responses > 1;
}

void DataFormatCheck::finish(const std::string& source) const {
  // Lists in which all responses are equally good have the right form, although they give no example.
  if (has_example_ || has_lists_) return;
  const std::string loss = fmt::format("datasets: loss={}", name_of(loss_));
  const std::string name = config::shown(source);
  if (kind_ == ExampleKind::Target)
    throw UserError(
        fmt::format("{} imitates good responses, but '{}' has only bad ones (label: false)", loss, name));
  if (kind_ == ExampleKind::Unpaired)
    throw UserError(
        fmt::format("{} needs labelled responses or pairs; '{}' has responses without a label: use loss=sft, "
                    "or give a label",
                    loss, name));
  throw UserError(fmt::format(
      "{} needs pairs (chosen and rejected); '{}' has {}", loss, name,
      has_labels_ ? "labelled responses: use loss=kto"
                  : "responses without a rejected one: use loss=sft, or give chosen and rejected"));
}

void check_form(const std::string& source, const std::vector<PromptText>& prompts,
                const config::LossConfig& loss) {
  DataFormatCheck check(loss);
  for (const PromptText& prompt : prompts) check.add(preferences_of(prompt));
  check.finish(source);
}

}  // namespace dpo::data
