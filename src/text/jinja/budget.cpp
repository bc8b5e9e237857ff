#include "text/jinja/budget.h"

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
  if (budget->left_.bytes < bytes) throw Failure("the template makes too many or too large values");
  budget->left_.bytes -= bytes;
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
