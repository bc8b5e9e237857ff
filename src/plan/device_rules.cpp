// What the device of a run cannot do.
#include <fmt/format.h>

#include "plan/rule_facts.h"

namespace dpo::plan {

std::optional<Finding> unused_gpus(const Facts& f) {
  if (f.machine.unused_gpus.empty()) return std::nullopt;
  return warning("gpus", f.machine.unused_gpus);
}

std::optional<Finding> precision(const Facts& f) {
  const Precision& p = f.c.precision;
  const bool reference = f.plan.reference != Reference::none && p.reference == 2;
  if (f.machine.device.has_half || (!p.half && p.state == 4 && !reference)) return std::nullopt;
  Finding finding = error("precision", fmt::format("{} does not train in 16 bits: that needs compute "
                                                   "capability 8.0 (Ampere) or newer",
                                                   f.machine.device.name));
  finding.remedies.push_back(
      {{"model.policy_dtype=float32", "model.fsdp_policy_mp=null", "model.reference_dtype=null"},
       "everything in float32"});
  return finding;
}

}  // namespace dpo::plan
