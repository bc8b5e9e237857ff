#include "data/texts.h"

#include <algorithm>
#include <iterator>

namespace dpo::data {

PromptText& PromptTexts::at(std::string prompt) {
  const std::size_t hash = std::hash<std::string>{}(prompt);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto place = begin; place != end; ++place)
    if (prompts_[place->second].prompt == prompt) return prompts_[place->second];
  by_hash_.emplace(hash, prompts_.size());
  prompts_.push_back({std::move(prompt), {}, {}, 0, {}});
  return prompts_.back();
}

void PromptTexts::append(PromptText&& more) {
  PromptText& prompt = at(more.prompt);
  const auto first = static_cast<std::uint32_t>(prompt.responses.size());
  std::move(more.responses.begin(), more.responses.end(), std::back_inserter(prompt.responses));
  for (const Pair& pair : more.pairs) prompt.pairs.push_back({first + pair.better, first + pair.worse});
  prompt.sft_target = first + more.sft_target;
}

}  // namespace dpo::data
