#include "data/texts.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace dpo::data {

void PromptText::add_pair(const Pair& pair) {
  pairs.push_back(pair);
  rankings.push_back({{pair.chosen, pair.rejected}, pair.weight});
}

const std::string& split_key_of(const PromptText& prompt) {
  return prompt.prompt.empty() ? prompt.responses.front() : prompt.prompt;
}

std::vector<std::uint32_t> ranked_by(const std::vector<double>& scores) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  const auto tied = [&](std::uint32_t a, std::uint32_t b) { return scores[a] == scores[b]; };
  order.erase(std::unique(order.begin(), order.end(), tied), order.end());
  return order;
}

PromptText& PromptTexts::at(std::string prompt) {
  const std::size_t hash = std::hash<std::string>{}(prompt);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry)
    if (prompts_[entry->second].prompt == prompt) return prompts_[entry->second];
  by_hash_.emplace(hash, prompts_.size());
  PromptText& made = add(std::move(prompt));
  made.own_entry = false;
  return made;
}

PromptText& PromptTexts::add(std::string prompt) {
  PromptText& made = prompts_.emplace_back();
  made.prompt = std::move(prompt);
  made.own_entry = true;
  return made;
}

void PromptTexts::append(PromptText&& more) {
  if (more.own_entry) {
    prompts_.push_back(std::move(more));
    return;
  }
  PromptText& prompt = at(more.prompt);
  prompt.chat = more.chat;
  const auto first = static_cast<std::uint32_t>(prompt.responses.size());
  std::move(more.responses.begin(), more.responses.end(), std::back_inserter(prompt.responses));
  prompt.origins.insert(prompt.origins.end(), more.origins.begin(), more.origins.end());
  for (Pair pair : more.pairs) {
    pair.chosen += first;
    pair.rejected += first;
    prompt.pairs.push_back(pair);
  }
  for (Ranking& ranking : more.rankings) {
    for (std::uint32_t& response : ranking.responses) response += first;
    prompt.rankings.push_back(std::move(ranking));
  }
  for (Label label : more.labels) {
    label.response += first;
    prompt.labels.push_back(label);
  }
  prompt.sft_target = first + more.sft_target;
}

}  // namespace dpo::data
