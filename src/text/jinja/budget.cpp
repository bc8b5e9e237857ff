#include "text/jinja/budget.h"

#include <algorithm>

#include "text/jinja/value.h"

namespace dpo::text::jinja {
namespace {

thread_local Budget* current_budget = nullptr;

}  // namespace

Budget::Budget(const Limits& limits) : left_(limits), outer_(current_budget) { current_budget = this; }

Budget::~Budget() { current_budget = outer_; }

void spend(std::uint64_t steps) {
  Budget* const budget = current_budget;
  if (!budget) return;
  if (budget->left_.steps < steps) throw Failure("the template takes too many steps");
  budget->left_.steps -= steps;
}

void charge(std::uint64_t bytes) {
  Budget* const budget = current_budget;
  if (!budget) return;
  if (bytes > std::min(budget->left_.bytes, budget->left_.value))
    throw Failure("the template makes too many or too large values");
  budget->left_.bytes -= bytes;
}

void charge(std::uint64_t count, std::uint64_t each) {
  std::uint64_t bytes = 0;
  charge(__builtin_mul_overflow(count, each, &bytes) ? UINT64_MAX : bytes);
}

void charge_text(std::size_t so_far, std::uint64_t more) {
  charge(more);
  if (current_budget && so_far > current_budget->left_.value - more)
    throw Failure("the template makes too many or too large values");
}

Level::Level() {
  Budget* const budget = current_budget;
  if (!budget) return;
  if (budget->left_.levels == 0) throw Failure("the template is nested too deeply");
  --budget->left_.levels;
}

Level::~Level() {
  if (current_budget) ++current_budget->left_.levels;
}

}  // namespace dpo::text::jinja
