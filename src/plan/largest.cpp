#include "plan/largest.h"

#include <algorithm>

#include "plan/architecture.h"
#include "plan/gather_inputs.h"

namespace dpo::plan {
namespace {

// The run with each built-in model, the largest first.
std::vector<Inputs> candidates(const config::RunConfig& run, const Machine& machine) {
  std::vector<Inputs> all;
  for (const std::string& name : built_in_models()) {
    config::RunConfig own = run;
    own.model.name_or_path = name;
    all.push_back(gather_inputs(own, machine));
    all.back().host = {};  // the question is about the GPUs, whatever disk they have
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, [](const Inputs& in) { return in.table->count(); });
  return all;
}

enum class Rounding { no, yes };

std::optional<LargestModel> largest_of(const std::vector<Inputs>& models, const Overrides& way,
                                       Rounding rounding) {
  for (const Inputs& in : models) {
    const Inputs own = changed(in, way);
    const auto savings = rounding == Rounding::yes ? rounding_savings(own) : std::vector<Saving>{};
    if (std::optional<Fit> fit = find_fastest(own, savings)) {
      fit->overrides = way + fit->overrides;
      return LargestModel{in, *std::move(fit)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine) {
  const std::vector<Inputs> models = candidates(run, machine);
  std::vector<Overrides> ways = {{}};
  if (run.adapter.name == config::Adapter::none) ways.push_back({"adapter=lora"});
  std::vector<LargestModel> found;
  for (const Overrides& way : ways)
    for (const Rounding rounding : {Rounding::no, Rounding::yes}) {
      std::optional<LargestModel> model = largest_of(models, way, rounding);
      if (model && (found.empty() || model->in.table->count() > found.back().in.table->count()))
        found.push_back(*std::move(model));
    }
  return found;
}

}  // namespace dpo::plan
