#include "text/merges.h"

#include <algorithm>
#include <bit>

namespace dpo::text {
namespace {

// Up to this length a linear scan for the lowest rank is faster than a heap.
constexpr std::size_t kShortWord = 48;

void merge_short(const MergeTable& merges, MergeScratch& scratch) {
  std::vector<Token>& symbols = scratch.symbols;
  std::vector<std::uint32_t>& ranks = scratch.ranks;  // ranks[i]: rank of the pair of symbols i and i + 1
  std::size_t pairs = symbols.size() - 1;
  ranks.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) ranks[i] = merges.rank(symbols[i], symbols[i + 1]);
  while (pairs > 0) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(pairs));
    scratch.steps += pairs;
    if (*lowest == kNoRank) break;
    const auto at = static_cast<std::size_t>(lowest - ranks.begin());
    symbols[at] = merges.result(*lowest);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    ranks.erase(lowest);
    --pairs;
    if (at > 0) ranks[at - 1] = merges.rank(symbols[at - 1], symbols[at]);
    if (at < pairs) ranks[at] = merges.rank(symbols[at], symbols[at + 1]);
  }
}

constexpr Token kMerged = -1;  // a symbol that was merged into its left neighbour
constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// Merges with a heap of candidates and a linked list of symbols. This takes n log n time even for a megabyte
// without a space.
class LongMerge {
 public:
  LongMerge(const MergeTable& merges, MergeScratch& scratch) : merges_(merges), scratch_(scratch) {}

  void run() {
    link_symbols();
    while (!scratch_.heap.empty()) {
      std::pop_heap(scratch_.heap.begin(), scratch_.heap.end(), later);
      const MergeScratch::Candidate candidate = scratch_.heap.back();
      scratch_.heap.pop_back();
      ++scratch_.steps;
      if (is_current(candidate)) merge(candidate);
    }
    std::erase(scratch_.symbols, kMerged);
  }

 private:
  static bool later(const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }

  void link_symbols() {
    const auto count = static_cast<std::uint32_t>(scratch_.symbols.size());
    scratch_.links.resize(count);
    scratch_.heap.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      scratch_.links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
      if (i + 1 < count) append_candidate(i, i + 1);
    }
    std::make_heap(scratch_.heap.begin(), scratch_.heap.end(), later);
  }

  bool append_candidate(std::uint32_t left, std::uint32_t right) {
    const std::uint32_t rank = merges_.rank(scratch_.symbols[left], scratch_.symbols[right]);
    if (rank != kNoRank) scratch_.heap.push_back({rank, left});
    return rank != kNoRank;
  }

  void add(std::uint32_t left, std::uint32_t right) {
    if (append_candidate(left, right)) std::push_heap(scratch_.heap.begin(), scratch_.heap.end(), later);
  }

  // Returns whether a candidate is current. Its pair may have been merged since the candidate was added.
  bool is_current(const MergeScratch::Candidate& candidate) const {
    const Token left = scratch_.symbols[candidate.at];
    const std::uint32_t next = scratch_.links[candidate.at].next;
    return left != kMerged && next != kNone && merges_.rank(left, scratch_.symbols[next]) == candidate.rank;
  }

  void merge(const MergeScratch::Candidate& candidate) {
    MergeScratch::Link& link = scratch_.links[candidate.at];
    scratch_.symbols[candidate.at] = merges_.result(candidate.rank);
    scratch_.symbols[link.next] = kMerged;
    link.next = scratch_.links[link.next].next;
    if (link.next != kNone) {
      scratch_.links[link.next].previous = candidate.at;
      add(candidate.at, link.next);
    }
    if (link.previous != kNone) add(link.previous, candidate.at);
  }

  const MergeTable& merges_;
  MergeScratch& scratch_;
};

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges)
    : slots_(std::bit_ceil(merges.size() * 2 + 2)), mask_(slots_.size() - 1) {
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::uint64_t key = key_of(merge.left, merge.right);
    std::size_t at = home(key);
    while (slots_[at].rank != kNoRank && slots_[at].key != key) at = (at + 1) & mask_;
    // If a pair is listed twice, the last one counts.
    slots_[at] = {key, static_cast<std::uint32_t>(results_.size())};
    results_.push_back(merge.result);
  }
}

void merge_word(const MergeTable& merges, MergeScratch& scratch) {
  if (scratch.symbols.size() < 2) return;
  if (scratch.symbols.size() <= kShortWord)
    merge_short(merges, scratch);
  else
    LongMerge(merges, scratch).run();
}

}  // namespace dpo::text
