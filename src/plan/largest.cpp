#include "plan/largest.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/architecture.h"
#include "plan/gather_inputs.h"
#include "plan/search.h"

namespace dpo::plan {
namespace {

// Returns the run with each built-in model, the largest first.
std::vector<Inputs> candidates(const config::RunConfig& run, const Machine& machine) {
  std::vector<Inputs> all;
  std::optional<UserError> problem;
  for (const std::string& name : built_in_models()) {
    config::RunConfig own = run;
    own.model.name_or_path = name;
    try {
      all.push_back(gather_inputs(own, machine, {}, built_in_architecture(name)));
    } catch (const UserError& error) {  // it has no module of a name that adapter.targets has, for instance
      problem = error;
      continue;
    }
    all.back().host.free_disk.reset();  // the question is not about the disk
    all.back().host.obstacle.clear();
  }
  if (all.empty() && problem) throw UserError(*problem);
  std::ranges::stable_sort(all, std::ranges::greater{}, [](const Inputs& in) { return in.table->count(); });
  return all;
}

std::optional<LargestModel> largest_of(const std::vector<Inputs>& models, const Saving& way,
                                       bool with_fewer_bits) {
  for (const Inputs& in : models) {
    const Inputs own = changed(in, way.overrides);
    if (!lasting_errors(own).empty()) continue;
    const auto savings = with_fewer_bits ? savings_of(own, Cost::bits, Cost::bits) : std::vector<Saving>{};
    if (std::optional<Fit> fit = find_fastest(own, savings)) {
      fit->overrides = way.overrides + fit->overrides;
      if (!way.reason.empty()) fit->costs = way.reason + (fit->costs.empty() ? "" : ", " + fit->costs);
      return LargestModel{in, *std::move(fit)};
    }
  }
  return std::nullopt;
}

// Throws if even the smallest model cannot be trained, for a reason other than memory.
void check_settings(const Inputs& smallest) {
  const std::optional<Fit> fit = find_fastest(smallest);
  if (!fit || fit->plan.passes()) return;
  std::vector<std::string> problems;
  for (const std::string& id : fit->errors())
    problems.push_back(
        fmt::format("with these settings no built-in model can be trained; {}, the smallest: {}",
                    smallest.run.model.name_or_path, fit->plan.find(id)->message));
  throw UserError(problems);
}

}  // namespace

std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine) {
  const std::vector<Inputs> models = candidates(run, machine);
  std::vector<Saving> ways = {{}};
  if (run.adapter.name == config::Adapter::none) ways.push_back(lora_of(run));
  std::vector<LargestModel> found;
  for (const Saving& way : ways)
    for (const bool with_fewer_bits : {false, true}) {
      std::optional<LargestModel> model = largest_of(models, way, with_fewer_bits);
      if (model && (found.empty() || model->in.table->count() > found.back().in.table->count()))
        found.push_back(*std::move(model));
    }
  if (found.empty()) check_settings(models.back());
  return found;
}

}  // namespace dpo::plan
