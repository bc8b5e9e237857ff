#include "data/texts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace dpo::data {

void PromptText::add_pair(const Pair& pair) {
  pairs.push_back(pair);
  rankings.push_back({{pair.chosen, pair.rejected}, pair.weight});
}

namespace {

// Converts a hash to a number in [0, 1).
double place_of(std::uint64_t split_hash) {
  constexpr double kTwoTo53 = 9007199254740992.0;
  return static_cast<double>(split_hash >> 11) / kTwoTo53;
}

}  // namespace

std::uint64_t split_hash_of(std::string_view text) {
  // FNV-1a with a final mix, so that the upper bits depend on every byte.
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u;
}

bool is_in_test_split(std::uint64_t split_hash, double test_share) {
  return place_of(split_hash) < test_share;
}

double share_that_takes(std::uint64_t split_hash) { return std::nextafter(place_of(split_hash), 1.0); }

PromptText without_row(const PromptText& prompt, RowOrigin row) {
  constexpr std::uint32_t kGone = UINT32_MAX;
  PromptText kept = prompt;
  kept.responses.clear();
  kept.origins.clear();
  std::vector<std::uint32_t> moved(prompt.responses.size(), kGone);  // new index of each response
  for (std::size_t r = 0; r < prompt.responses.size(); ++r) {
    if (prompt.origins[r] == row) continue;
    moved[r] = static_cast<std::uint32_t>(kept.responses.size());
    kept.responses.push_back(prompt.responses[r]);
    kept.origins.push_back(prompt.origins[r]);
  }
  // All responses of a pair or a ranking come from one row.
  std::erase_if(kept.pairs, [&](const Pair& pair) { return moved[pair.chosen] == kGone; });
  std::erase_if(kept.rankings, [&](const Ranking& list) { return moved[list.responses[0]] == kGone; });
  std::erase_if(kept.labels, [&](const Label& label) { return moved[label.response] == kGone; });
  for (Pair& pair : kept.pairs) pair = {moved[pair.chosen], moved[pair.rejected], pair.weight, pair.margin};
  for (Ranking& ranking : kept.rankings)
    for (std::uint32_t& response : ranking.responses) response = moved[response];
  for (Label& label : kept.labels) label.response = moved[label.response];
  const std::uint32_t target = moved[prompt.sft_target];
  kept.sft_target = target != kGone ? target : kept.rankings.empty() ? 0 : kept.rankings.back().responses[0];
  return kept;
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
  PromptText& prompt = at(std::move(more.prompt));
  prompt.chat = more.chat;
  prompt.split_hash = more.split_hash;
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
  // A later row whose responses are all equally good does not change the target.
  if (first == 0 || !more.rankings.empty()) prompt.sft_target = first + more.sft_target;
}

}  // namespace dpo::data
