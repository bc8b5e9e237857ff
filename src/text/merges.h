#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace dpo::text {

struct Merge {
  Token left;
  Token right;
  Token result;
};

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

// A hash table from a pair of tokens to the rank of their merge, which is its index in the list.
class MergeTable {
 public:
  explicit MergeTable(std::span<const Merge> merges);

  // Returns kNoRank if the pair does not merge.
  std::uint32_t rank(Token left, Token right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      if (slots_[at].rank == kNoRank || slots_[at].key == key) return slots_[at].rank;
    }
  }
  Token result(std::uint32_t rank) const { return results_[rank]; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t rank = kNoRank;
  };

  static std::uint64_t key_of(Token left, Token right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t home(std::uint64_t key) const {
    const std::uint64_t product = key * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(product >> 32 ^ product >> 15) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
  std::vector<Token> results_;
};

// Memory that encode() reuses for every word.
struct MergeScratch {
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
  };
  std::vector<Token> symbols;
  std::vector<std::uint32_t> ranks;
  std::vector<Link> links;
  std::vector<Candidate> heap;
  std::uint64_t steps = 0;  // candidates examined, for a test of the complexity
};

// Merges scratch.symbols in place. Repeatedly merges the pair of lowest rank, and the leftmost of equal ones.
void merge_word(const MergeTable& merges, MergeScratch& scratch);

}  // namespace dpo::text
