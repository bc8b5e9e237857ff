#pragma once

#include <cstdint>
#include <vector>

#include "text/merges.h"

namespace dpo::text {

// Memory that one call of encode() uses again for every word.
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
  std::uint64_t steps = 0;  // candidates looked at, so that a test can see how the work grows
};

// Merges scratch.symbols in place: again and again the pair of the lowest rank, of equals the leftmost.
void merge_word(const MergeTable& merges, MergeScratch& scratch);

}  // namespace dpo::text
