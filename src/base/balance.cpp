#include "base/balance.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

namespace dpo {
namespace {

// Responses of one tree that a part computes.
struct Piece {
  std::size_t tree = 0;
  std::vector<std::size_t> responses;
};

struct Part {
  std::int64_t cost = 0;
  std::vector<Piece> pieces;

  void add(Piece piece, std::int64_t piece_cost) {
    cost += piece_cost;
    pieces.push_back(std::move(piece));
  }
};

using Parts = std::vector<Part>;
using Trees = std::span<const TreeCost>;

bool is_heavier(const Part& a, const Part& b) { return a.cost > b.cost; }

Piece all_of(Trees trees, std::size_t tree) {
  Piece piece{tree, std::vector<std::size_t>(trees[tree].responses.size())};
  std::iota(piece.responses.begin(), piece.responses.end(), 0);
  return piece;
}

void sort_heaviest_first(Trees trees, std::vector<std::size_t>& order) {
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t tree) { return trees[tree].whole(); });
}

// Adds the heaviest trees first, each to the part with the least cost, so that no two parts differ by more
// than one tree.
Parts whole_trees(Trees trees, std::size_t count) {
  std::vector<std::size_t> order(trees.size());
  std::iota(order.begin(), order.end(), 0);
  sort_heaviest_first(trees, order);
  Parts parts(count);
  using Load = std::pair<std::int64_t, std::size_t>;  // cost and number of a part
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest;
  for (std::size_t i = 0; i < count; ++i) lightest.emplace(0, i);
  for (const std::size_t tree : order) {
    const std::size_t part = lightest.top().second;
    lightest.pop();
    parts[part].add(all_of(trees, tree), trees[tree].whole());
    lightest.emplace(parts[part].cost, part);
  }
  return parts;
}

// Fills the ranks of a microbatch up to a limit of their costs.
class Filling {
 public:
  Filling(Trees trees, std::size_t ranks, std::int64_t limit) : trees_(trees), parts_(ranks), limit_(limit) {
    for (std::size_t i = 0; i < ranks; ++i) by_cost_.emplace(0, i);
  }

  // Adds a tree: as a whole to the fullest part that has room for it, otherwise divided over the emptiest
  // ones. Returns false if there is too little room.
  bool add(std::size_t tree) {
    Piece piece = all_of(trees_, tree);
    const std::int64_t cost = trees_[tree].whole();
    const auto after = by_cost_.upper_bound({limit_ - cost, std::numeric_limits<std::size_t>::max()});
    if (after != by_cost_.begin()) {
      put(std::prev(after), std::move(piece), cost);
      return true;
    }
    std::ranges::stable_sort(piece.responses, std::greater(),
                             [&](std::size_t response) { return trees_[tree].responses[response]; });
    while (!piece.responses.empty())
      if (!put_some(piece)) return false;
    return true;
  }

  Parts take() { return std::move(parts_); }

 private:
  using ByCost = std::set<std::pair<std::int64_t, std::size_t>>;

  void put(ByCost::iterator at, Piece piece, std::int64_t cost) {
    const std::size_t part = at->second;
    by_cost_.erase(at);
    parts_[part].add(std::move(piece), cost);
    by_cost_.emplace(parts_[part].cost, part);
  }

  // Moves the responses that fit into the emptiest part out of `left`. Returns false if none fits.
  bool put_some(Piece& left) {
    const TreeCost& tree = trees_[left.tree];
    const auto emptiest = by_cost_.begin();
    std::int64_t cost = tree.prompt;
    Piece taken{left.tree, {}}, rest{left.tree, {}};
    for (const std::size_t response : left.responses) {
      const bool fits = emptiest->first + cost + tree.responses[response] <= limit_;
      (fits ? taken : rest).responses.push_back(response);
      if (fits) cost += tree.responses[response];
    }
    if (taken.responses.empty()) return false;
    put(emptiest, std::move(taken), cost);
    left = std::move(rest);
    return true;
  }

  Trees trees_;
  Parts parts_;
  ByCost by_cost_;  // the parts
  std::int64_t limit_;
};

std::optional<Parts> filled(Trees trees, const std::vector<std::size_t>& order, std::size_t ranks,
                            std::int64_t limit) {
  Filling filling(trees, ranks, limit);
  for (const std::size_t tree : order)
    if (!filling.add(tree)) return std::nullopt;
  return filling.take();
}

// Returns a cost that the slowest of these ranks cannot be below: the mean, or a prompt with its longest
// response.
std::int64_t least_cost(Trees trees, const std::vector<std::size_t>& order, std::size_t ranks) {
  std::int64_t sum = 0, least = 0;
  for (const std::size_t tree : order) {
    sum += trees[tree].whole();
    for (const std::int64_t response : trees[tree].responses)
      least = std::max(least, trees[tree].prompt + response);
  }
  return std::max(least, sum / static_cast<std::int64_t>(ranks));
}

// Divides the trees of one microbatch, given as whole trees, over its ranks. Ranks that share a pair exchange
// its scores, so a division must save 1 % of the slowest rank's cost. The limit is found by bisection, until
// 0.2 % are left.
Parts with_divided_trees(Trees trees, Parts whole) {
  constexpr std::int64_t kLeastGain = 100, kPrecision = 500;  // fractions of a cost
  std::vector<std::size_t> order;
  for (const Part& part : whole)
    for (const Piece& piece : part.pieces) order.push_back(piece.tree);
  std::ranges::sort(order);
  sort_heaviest_first(trees, order);
  const std::int64_t slowest = std::ranges::min_element(whole, is_heavier)->cost;
  const std::int64_t enough = slowest - slowest / kLeastGain;
  std::int64_t low = least_cost(trees, order, whole.size()), high = slowest;
  std::optional<Parts> best;
  while (low <= enough && high - low > high / kPrecision) {
    const std::int64_t limit = low + (high - low) / 2;
    if (auto found = filled(trees, order, whole.size(), limit)) {
      best = std::move(found);
      high = std::ranges::min_element(*best, is_heavier)->cost;
    } else {
      low = limit + 1;
    }
  }
  return best && high <= enough ? *std::move(best) : std::move(whole);
}

// Arranges parts that have whole trees as [rank * microbatches + microbatch]. Ranks wait for each other in
// every microbatch, so parts of about the same cost form one. The rank with the least work so far gets the
// heaviest part of the next.
Parts over_ranks(Trees trees, Parts whole, std::size_t ranks) {
  const std::size_t microbatches = whole.size() / ranks;
  std::ranges::stable_sort(whole, is_heavier);
  Parts parts(whole.size());
  std::vector<std::pair<std::int64_t, std::size_t>> work(ranks);  // of each rank so far
  for (std::size_t i = 0; i < ranks; ++i) work[i] = {0, i};
  for (std::size_t m = 0; m < microbatches; ++m) {
    const auto first = std::make_move_iterator(whole.begin() + static_cast<std::ptrdiff_t>(m * ranks));
    Parts column = with_divided_trees(trees, {first, first + static_cast<std::ptrdiff_t>(ranks)});
    std::ranges::stable_sort(column, is_heavier);
    std::ranges::sort(work);
    for (std::size_t i = 0; i < ranks; ++i) {
      work[i].first += column[i].cost;
      parts[work[i].second * microbatches + m] = std::move(column[i]);
    }
  }
  return parts;
}

double slowest_over_mean(Trees trees, const Parts& parts, std::size_t ranks) {
  std::int64_t slowest = 0, sum = 0;
  const std::size_t microbatches = parts.size() / ranks;
  for (std::size_t m = 0; m < microbatches; ++m) {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      most = std::max(most, parts[rank * microbatches + m].cost);
    slowest += most;
  }
  for (const TreeCost& tree : trees) sum += tree.whole();
  return sum == 0 ? 1 : static_cast<double>(slowest) * static_cast<double>(ranks) / static_cast<double>(sum);
}

}  // namespace

std::int64_t prompt_cost(const UnitCosts& costs, std::int64_t prompt) {
  return prompt * costs.token + prompt * (prompt + 1) / 2 * costs.attended;
}

std::int64_t response_cost(const UnitCosts& costs, std::int64_t prompt, std::int64_t tokens,
                           std::int64_t scored) {
  return tokens * costs.token + scored * costs.row +
         (tokens * prompt + tokens * (tokens + 1) / 2) * costs.attended;
}

std::int64_t TreeCost::whole() const { return std::accumulate(responses.begin(), responses.end(), prompt); }

Balance balance(std::span<const TreeCost> trees, std::int64_t ranks, std::int64_t microbatches,
                Prompts prompts) {
  const auto count = static_cast<std::size_t>(ranks);
  Parts parts = whole_trees(trees, count * static_cast<std::size_t>(microbatches));
  if (ranks > 1 && prompts == Prompts::divided) parts = over_ranks(trees, std::move(parts), count);
  Balance result{.part_of = {}, .slowest_rank = slowest_over_mean(trees, parts, count)};
  for (const TreeCost& tree : trees) result.part_of.emplace_back(tree.responses.size());
  for (std::size_t part = 0; part < parts.size(); ++part)
    for (const Piece& piece : parts[part].pieces)
      for (const std::size_t response : piece.responses)
        result.part_of[piece.tree][response] = static_cast<std::int32_t>(part);
  return result;
}

}  // namespace dpo
