// Compares the held-out examples of runs. If they differ, the results of the runs cannot be compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dpo::report {

// The examples that a run is evaluated on.
struct HeldOut {
  std::int64_t examples = 0;  // 0: nothing was evaluated
  std::string digest = {};    // of their texts; empty if not recorded, as in older runs

  bool operator==(const HeldOut&) const = default;
};

// Returns the digest in a run's plan.json, or "" if there is none.
std::string held_out_digest(const nlohmann::json& plan);

struct HeldOutComparison {
  enum class Verdict { same, unknown, different };
  Verdict verdict = Verdict::same;
  std::string text = {};  // "different held-out sets: 5 and 16 examples; not comparable"; empty if the same
  std::vector<std::string> notes = {};  // one per run, such as "set 1"; empty if all are the same

  bool differ() const { return verdict == Verdict::different; }
};

// Compares runs. Those without evaluations are left out.
HeldOutComparison compare_held_out(std::span<const HeldOut> runs);

}  // namespace dpo::report
