// The searches for settings with which a run works.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "plan/savings.h"

namespace dpo::plan {

// Returns the result with as few savings as are enough: with none, with the first one that is enough alone,
// or with the first ones that are enough together, less those that turn out not to be needed. `attempt`
// returns a result, or nullopt if these savings are not enough.
template <class Attempt>
auto with_fewest(const std::vector<Saving>& savings, const Attempt& attempt) {
  std::vector<Saving> taken;
  auto result = attempt(taken);
  for (auto saving = savings.begin(); !result && saving != savings.end(); ++saving) {
    taken.push_back(*saving);
    result = attempt({*saving});
    if (result || taken.size() == 1) continue;
    result = attempt(taken);
    for (std::size_t i = taken.size() - 1; result && i-- > 0;) {
      std::vector<Saving> fewer = taken;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (auto still = attempt(fewer)) taken = std::move(fewer), result = std::move(still);
    }
  }
  return result;
}

using RuleIds = std::vector<std::string>;

// Finds the fastest settings that do not change the result of training. If none fit, uses as few of the
// savings as possible. The resulting plan breaks no rules but the accepted ones.
std::optional<Fit> find_fastest(const Inputs& in, const std::vector<Saving>& savings,
                                const RuleIds& accepted = {});

// Returns the errors, other than of memory, that the run has with every choice of the search. Settings that
// are not searched over cause them.
RuleIds lasting_errors(const Inputs& in);

}  // namespace dpo::plan
