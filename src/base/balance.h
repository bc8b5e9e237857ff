// Divides the work of a batch among ranks and microbatches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dpo {

// Costs of computing, all in the same unit.
struct UnitCosts {
  std::int64_t token = 1;     // of a token in the layers
  std::int64_t row = 0;       // of a scored token in the head
  std::int64_t attended = 0;  // of a pair (query, key) of attention
};

// Return the cost of a prompt, and that of a response to a prompt of this length.
std::int64_t prompt_cost(const UnitCosts& costs, std::int64_t prompt);
std::int64_t response_cost(const UnitCosts& costs, std::int64_t prompt, std::int64_t tokens,
                           std::int64_t scored);

// Costs of a prompt with its responses. Every part that has some of the responses also computes the prompt.
struct TreeCost {
  std::int64_t prompt = 0;
  std::vector<std::int64_t> responses{};

  std::int64_t whole() const;
};

struct Balance {
  // The part of every response of every tree. Parts are numbered rank * microbatches + microbatch.
  std::vector<std::vector<std::int32_t>> part_of;
  // Cost of the slowest rank of every microbatch, summed up, over the mean of all ranks without repeated
  // prompts.
  double slowest_rank = 1;
};

enum class Prompts { whole, divided };

// Divides trees so that the slowest rank of a microbatch is as cheap as possible. The result depends on the
// arguments only, and all arithmetic is on integers, so that every rank finds the same one. The responses of
// a tree are divided over several ranks of one microbatch if the slowest rank is cheaper even though each of
// them computes the prompt; with Prompts::whole, or one rank, trees stay whole.
Balance balance(std::span<const TreeCost> trees, std::int64_t ranks, std::int64_t microbatches,
                Prompts prompts);

}  // namespace dpo
