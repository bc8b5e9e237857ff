#include "text/merges.h"

#include <bit>

namespace dpo::text {

MergeTable::MergeTable(std::span<const Merge> merges)
    : slots_(std::bit_ceil(merges.size() * 2 + 2)), mask_(slots_.size() - 1) {
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::uint64_t key = key_of(merge.left, merge.right);
    std::size_t at = home(key);
    while (slots_[at].rank != kNoRank && slots_[at].key != key) at = (at + 1) & mask_;
    // Of a pair that is listed twice, the last counts.
    slots_[at] = {key, static_cast<std::uint32_t>(results_.size())};
    results_.push_back(merge.result);
  }
}

}  // namespace dpo::text
