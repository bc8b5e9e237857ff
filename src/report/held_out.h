// Whether runs were evaluated on the same held-out examples. If not, their results cannot be compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dpo::report {

// The examples that a run evaluates on.
struct HeldOut {
  std::int64_t examples = 0;  // 0: nothing was evaluated
  std::string digest = {};    // of their texts; empty: not recorded, in older runs

  bool operator==(const HeldOut&) const = default;
};

// The digest that plan.json of a run records; empty if there is none.
std::string held_out_digest(const nlohmann::json& plan);

struct HeldOutComparison {
  enum class Verdict { same, unknown, different };
  Verdict verdict = Verdict::same;
  std::string text = {};  // "different held-out sets: 5 and 16 examples; not comparable"; empty if the same
  std::vector<std::string> notes = {};  // for each run: "set 1"; empty if all are the same

  bool differ() const { return verdict == Verdict::different; }
};

// Runs without evaluations are left out.
HeldOutComparison compare_held_out(std::span<const HeldOut> runs);

}  // namespace dpo::report
